"""What of a query is history: one table of it, or rows made of such, each by itself, so that pieces can be cut."""

from sqlglot import exp

from recall.query.parts import aggregates_of, own_nodes
from recall.query.shape import Tables, Unsupported


def find_history(query: exp.Select, tables: Tables) -> exp.Expr:
    """The table or subquery in FROM through which history is read. Raises `Unsupported` where pieces cannot be cut."""
    with_ = query.args.get("with_")
    local: dict[str, bool] = {}
    for cte in with_.expressions if with_ is not None else ():
        local[cte.alias.lower()] = _reads_history(cte.this, tables, local)
    return _single_history_table(query, tables, local)


def _single_history_table(query: exp.Select, tables: Tables, local: dict[str, bool]) -> exp.Expr:
    from_ = query.args.get("from_")
    if from_ is None:
        raise Unsupported("a recall reads a stream; this reads none", query)
    places = [from_.this, *(join.this for join in query.args.get("joins") or ())]
    found = [place for place in places if _reads_history(place, tables, local)]
    if not found:
        raise Unsupported("a recall reads a stream; this reads none", query)
    if len(found) > 1:
        raise Unsupported(
            "a recall reads one stream; a join of two cannot be split into pieces of time", found[1]
        )
    for join in query.args.get("joins") or ():
        if join.side and found[0] is join.this:
            name = join.this.alias_or_name
            raise Unsupported(
                f"{join.side} JOIN of the stream cannot be split; begin with FROM {name}", join
            )
    history: exp.Expr = found[0]
    return history


def _reads_history(place: exp.Expr, tables: Tables, local: dict[str, bool]) -> bool:
    if isinstance(place, exp.Table):
        name = place.name.lower()
        return local.get(name, name in tables.streams or name in tables.derived)
    if isinstance(place, exp.Subquery):
        return _reads_history(place.this, tables, local)
    if isinstance(place, exp.SetOperation):
        sides = [_reads_history(side, tables, local) for side in (place.this, place.expression)]
        if any(sides) and (not isinstance(place, exp.Union) or place.args.get("distinct")):
            raise Unsupported(
                "only UNION ALL of streams can be split into pieces of history", place
            )
        return any(sides)
    if isinstance(place, exp.Select):
        return _select_reads_history(place, tables, local)
    return False


def _select_reads_history(inner: exp.Select, tables: Tables, local: dict[str, bool]) -> bool:
    """A subquery of history gives each row by itself."""
    from_ = inner.args.get("from_")
    places = (
        []
        if from_ is None
        else [from_.this, *(join.this for join in inner.args.get("joins") or ())]
    )
    if not any(_reads_history(place, tables, local) for place in places):
        return False
    _single_history_table(inner, tables, local)
    grouped = inner.args.get("group") or inner.args.get("distinct") or any(aggregates_of(inner))
    if (
        grouped
        or inner.args.get("limit")
        or inner.args.get("order")
        or own_nodes(inner, exp.Window)
    ):
        raise Unsupported(
            "groups, DISTINCT, LIMIT and OVER inside a subquery need all of history at once; use them outside it, "
            "or in a derived stream of the group",
            inner,
        )
    return True
