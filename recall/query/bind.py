"""An event query as it is run: derived streams put in, tables under their physical names, relations as of the row.

No value ever enters by text: only names of tables change, on the syntax tree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from recall.query.joins import find_anchor
from recall.query.shape import Tables, Unsupported, grouping_windows, parse

# Columns that a relation's physical table has beside the declared ones: the event time in which a row holds.
VALID_FROM, VALID_TO = "_valid_from", "_valid_to"


@dataclass(frozen=True)
class PhysicalTables:
    """The names under which streams and relations can be read."""

    names: Mapping[str, str]

    def __getitem__(self, name: str) -> exp.Table:
        return exp.to_table(self.names[name], dialect="spark")


def bind_query(sql: str, tables: Tables, physical: PhysicalTables) -> exp.Query:
    """The query over physical tables. The query must have a `shape`."""
    return _bind_query(parse(sql), tables, physical, frozenset())


def _bind_query(
    query: exp.Query, tables: Tables, physical: PhysicalTables, local: frozenset[str]
) -> exp.Query:
    with_ = query.args.get("with_")
    for cte in with_.expressions if with_ else ():
        cte.set("this", _bind_query(cte.this, tables, physical, local))
        local |= {cte.alias.lower()}
    if isinstance(query, exp.SetOperation):
        for side in ("this", "expression"):
            query.set(side, _bind_query(query.args[side], tables, physical, local))
    elif isinstance(query, exp.Subquery):
        query.set("this", _bind_query(query.this, tables, physical, local))
    elif isinstance(query, exp.Select):
        _bind_select(query, tables, physical, local)
    return query


def _bind_select(
    select: exp.Select, tables: Tables, physical: PhysicalTables, local: frozenset[str]
) -> None:
    from_ = select.args["from_"]
    joins = select.args.get("joins") or []
    places = [from_, *joins]
    times = [_time_column(place.this, tables, local) for place in places]
    known = {
        p.this.alias_or_name.lower(): t for p, t in zip(places, times, strict=True) if t is not None
    }
    owner = find_anchor(select, known, grouping_windows(select))
    assert owner is not None  # the query has a shape
    moment = exp.column(known[owner], table=owner, quoted=True)
    for place in places:
        relation = _is_table_in(place.this, tables.relations, local)
        alias = place.this.alias_or_name
        place.set("this", _bind_table(place.this, tables, physical, local))
        if relation:
            _add_validity_condition(select, place, alias, moment)


def _time_column(node: exp.Expr, tables: Tables, local: frozenset[str]) -> str | None:
    """The name of the event time of a table in FROM; None for a relation."""
    if _is_table_in(node, tables.relations, local):
        return None
    if _is_table_in(node, tables.streams, local):
        return tables.streams[node.name.lower()]
    return "ts"


def _is_table_in(
    node: exp.Expr, names: Mapping[str, str] | frozenset[str], local: frozenset[str]
) -> bool:
    return (
        isinstance(node, exp.Table)
        and node.name.lower() in names
        and node.name.lower() not in local
    )


def _bind_table(
    node: exp.Expr, tables: Tables, physical: PhysicalTables, local: frozenset[str]
) -> exp.Expr:
    if isinstance(node, exp.Subquery):
        return _bind_query(node, tables, physical, local)
    name = node.name.lower()
    if name in local:
        return node
    if name not in tables.derived or name in tables.streams:
        return exp.alias_(physical[name], node.alias_or_name, table=True, quoted=True)
    rest = replace(tables, derived={n: s for n, s in tables.derived.items() if n != name})
    inner = _bind_query(parse(tables.derived[name]), rest, physical, frozenset())
    return exp.Subquery(
        this=inner, alias=exp.TableAlias(this=exp.to_identifier(node.alias_or_name, quoted=True))
    )


def _add_validity_condition(
    select: exp.Select, place: exp.Expr, alias: str, moment: exp.Column
) -> None:
    """The version of a relation's row that held at the time of the stream's row."""
    holds = exp.and_(
        exp.GTE(this=moment.copy(), expression=exp.column(VALID_FROM, table=alias, quoted=True)),
        exp.LT(this=moment.copy(), expression=exp.column(VALID_TO, table=alias, quoted=True)),
    )
    if isinstance(place, exp.Join) and place.args.get("on") is not None:
        place.set("on", exp.and_(place.args["on"], holds))
        return
    if isinstance(place, exp.Join) and (place.side == "LEFT" or place.method == "NATURAL"):
        raise Unsupported(f"write the join of {alias} with ON", place)
    select.where(holds, copy=False)
