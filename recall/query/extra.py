"""Undeclared fields in SQL: each stream has the column `_extra`, which `*` does not include. No I/O."""

from collections.abc import Collection, Mapping

from sqlglot import exp

from recall.query.parsing import parse
from recall.query.parts import joins_of, own_nodes, sources_of
from recall.query.sql_names import EXTRA


def exclude_extra(select: exp.Select, aliases: Collection[str]) -> None:
    """Leave `_extra` of some tables in FROM out of each `*` of a SELECT.

    `aliases`: of the streams in FROM.
    """
    if not aliases:
        return
    for star in own_nodes(select, exp.Star):
        if isinstance(star.parent, exp.Count):
            continue  # count(*) counts rows
        qualifier = star.parent.table if isinstance(star.parent, exp.Column) else ""
        matching = [alias for alias in aliases if qualifier.lower() in ("", alias.lower())]
        if qualifier or len(sources_of(select)) == 1:
            columns = [exp.column(EXTRA) for _ in matching[:1]]
        else:
            columns = [exp.column(EXTRA, table=alias, quoted=True) for alias in matching]
        present = star.args.get("except_") or []
        if not any(column.name.lower() == EXTRA for column in present):
            star.set("except_", [*present, *columns])


def excludes_only_extra(star: exp.Expr) -> bool:
    """Whether a `*` stands for all declared columns."""
    arguments = {name for name, value in star.args.items() if value}
    excluded = star.args.get("except_") or ()
    return arguments <= {"except_"} and all(column.name == EXTRA for column in excluded)


def reveal_extra(sql: str, views: Mapping[str, str]) -> str:
    """The query over views that have `_extra`, if it names that column; else as it is written.

    `views`: by stream. Raises `Unsupported`.
    """
    if EXTRA not in sql.lower():
        return sql
    query = parse(sql)
    if not any(column.name.lower() == EXTRA for column in query.find_all(exp.Column)):
        return sql
    local_tables = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for select in query.find_all(exp.Select):
        aliases: list[str] = []
        from_ = select.args.get("from_")
        for clause in () if from_ is None else (from_, *joins_of(select)):
            table = clause.this
            name = table.name.lower() if isinstance(table, exp.Table) else ""
            if name in views and name not in local_tables:
                alias = table.alias_or_name
                clause.set("this", exp.alias_(exp.to_table(views[name]), alias, table=True))
                aliases.append(alias)
        exclude_extra(select, aliases)
    text: str = query.sql(dialect="spark")
    return text
