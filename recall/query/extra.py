"""Columns that `*` does not include, such as `_extra`, the undeclared fields of a stream. No I/O."""

from collections.abc import Collection, Mapping

from sqlglot import exp

from recall.query.parsing import parse
from recall.query.parts import joins_of, own_nodes, sources_of
from recall.query.sql_names import EXTRA


def exclude_extra(select: exp.Select, aliases: Collection[str]) -> None:
    """Leave `_extra` of some tables in FROM out of each `*` of a SELECT.

    `aliases`: of the streams in FROM.
    """
    exclude_columns(select, dict.fromkeys(aliases, (EXTRA,)))


def exclude_columns(select: exp.Select, columns_by_alias: Mapping[str, Collection[str]]) -> None:
    """Leave columns of some tables in FROM, by their aliases, out of each `*` of a SELECT."""
    if not columns_by_alias:
        return
    for star in own_nodes(select, exp.Star):
        if isinstance(star.parent, exp.Count):
            continue  # count(*) counts rows
        qualifier = star.parent.table if isinstance(star.parent, exp.Column) else ""
        needs_table = not qualifier and len(sources_of(select)) > 1
        excluded = list(star.args.get("except_") or [])
        present = {(column.table.lower(), column.name.lower()) for column in excluded}
        for alias, names in columns_by_alias.items():
            if qualifier.lower() not in ("", alias.lower()):
                continue
            for name in names:
                if {("", name.lower()), (alias.lower(), name.lower())} & present:
                    continue
                if needs_table:
                    excluded.append(exp.column(name, table=alias, quoted=True))
                else:
                    excluded.append(exp.column(name))
        star.set("except_", excluded or None)


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
