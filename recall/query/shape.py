"""What an event query needs: which tables, how far back in time, and when its rows are complete. Pure.

A query is judged over slices of event time. For rows with `ts` in [a, b) it is given the input in
[a − reach, b + lag), all of it settled: a row at `ts` is complete when the watermark w of its streams has
w > ts + lag. Filters have lag 0; a window whose rows carry `window.end` is complete just when w reaches its end.
Because nothing else of the past is looked at, live, batch and replica find the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from archiver.times import duration_to_micros
from recall.errors import RecallError
from recall.query.intervals import parse_interval
from recall.query.joins import find_anchor, time_bounds

# A row of a join is complete some time after it has come: joins are judged at each such step of event time.
_JOIN_PERIOD = 1_000_000
# Levels of a syntax tree: what walks it must not run out of stack.
_MAX_DEPTH = 250


class EventSql(Spark):
    """Spark's SQL in which `window` is a function everywhere; windows of rows (OVER) are not supported anyway."""

    class Tokenizer(Spark.Tokenizer):
        """Without the keyword, `GROUP BY window(…)` is read as what it is."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }


class Unsupported(RecallError):
    """A query that cannot be judged piece by piece; `line` and `column` (from 1) point into its text."""

    def __init__(self, message: str, node: exp.Expr | None = None) -> None:
        super().__init__(message)
        self.line, self.column = position(node)


def position(node: exp.Expr | None) -> tuple[int, int]:
    """Line and column of the first word of a part of a query, as far as the parser kept it."""
    for part in node.walk() if node is not None else ():
        if "line" in part.meta:
            return part.meta["line"], part.meta["col"] - (part.meta["end"] - part.meta["start"])
    return 1, 1


@dataclass(frozen=True)
class Tables:
    """What queries may name: streams with their time column, relations, derived streams with their SQL."""

    streams: Mapping[str, str]
    relations: frozenset[str] = frozenset()
    derived: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shape:
    """See the module. Times in microseconds; `period`: windows close at `offset` plus its multiples, None: none."""

    streams: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()
    reach: int = 0
    lag: int = 0
    period: int | None = None
    offset: int = 0

    @property
    def is_stateless(self) -> bool:
        """Each input row is judged by itself, so that events can be detected at once."""
        return self.period is None

    def closes_window(self, before: int | None, now: int) -> bool:
        """Whether the watermark's move from `before` to `now` closes a window."""
        if self.period is None or before is None:
            return True
        return (now - self.offset) // self.period > (before - self.offset) // self.period


def parse(sql: str) -> exp.Query:
    """The query's syntax tree. Raises `Unsupported` for anything but one query."""
    try:
        statements = sqlglot.parse(sql, read=EventSql)
    except RecursionError as error:
        raise Unsupported("SQL is nested too deep") from error
    except sqlglot.errors.SqlglotError as error:
        known = (
            error.errors[0] if isinstance(error, sqlglot.errors.ParseError) and error.errors else {}
        )
        refusal = Unsupported(f"SQL syntax: {known.get('description', str(error))}")
        refusal.line, refusal.column = known.get("line", 1) or 1, known.get("col", 1) or 1
        raise refusal from error
    except (
        Exception
    ) as error:  # some texts the parser does not refuse but falls over, such as `|> LIMIT 1`
        raise Unsupported("SQL syntax: this cannot be read") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise Unsupported("one SELECT is wanted here")
    if _depth(statements[0]) > _MAX_DEPTH:
        raise Unsupported(
            f"SQL is nested deeper than {_MAX_DEPTH} levels; each link of a chain (AND, +) is one"
        )
    return statements[0]


def _depth(root: exp.Expr) -> int:
    deepest, waiting = 0, [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in node.iter_expressions()]
    return deepest


def tables_in(sql: str) -> frozenset[str]:
    """The names of all tables in a query."""
    return frozenset(table.name.lower() for table in parse(sql).find_all(exp.Table))


def infer_shape(sql: str, tables: Tables) -> Shape:
    """The shape of an event query or derived stream. Raises `Unsupported`."""
    return _infer_query(parse(sql), tables, {}).shape


@dataclass(frozen=True)
class _SourceShape:
    """A table in FROM: its shape, and the name of the column that is its event time (None for a relation)."""

    shape: Shape
    time_column: str | None


_WINDOW_FUNCTIONS = (
    "window functions (OVER) need all rows around a row; use GROUP BY window(ts, '…')"
)
_REFUSED_NODES: dict[type[exp.Expr], str] = {
    exp.Window: _WINDOW_FUNCTIONS,
    exp.Limit: "LIMIT would keep rows by chance; use a WHERE",
    exp.Exists: "EXISTS is not supported in an event query; join a relation instead",
    exp.Pivot: "PIVOT is not supported in an event query",
    exp.TableSample: "TABLESAMPLE is not supported in an event query",
    # The parser would write these as something else.
    exp.WithinGroup: "WITHIN GROUP is not supported; use percentile(x, 0.5) or median(x)",
    exp.GroupConcat: "listagg depends on the order of rows; use array_join(array_sort(collect_list(x)), ', ')",
}


def _infer_query(
    query: exp.Expr, tables: Tables, local: Mapping[str, _SourceShape]
) -> _SourceShape:
    if isinstance(query, exp.Subquery):
        return _infer_query(query.this, tables, local)
    local = dict(local)
    with_ = query.args.get("with_") or query.args.get("with")
    for cte in with_.expressions if with_ else ():
        local[cte.alias.lower()] = _infer_query(cte.this, tables, local)
    if isinstance(query, exp.SetOperation):
        return _infer_union(
            _infer_query(query.this, tables, local),
            _infer_query(query.expression, tables, local),
            query,
        )
    if not isinstance(query, exp.Select):
        raise Unsupported("one SELECT is wanted here", query)
    return _infer_select(query, tables, local)


def _infer_union(left: _SourceShape, right: _SourceShape, node: exp.Expr) -> _SourceShape:
    if not isinstance(node, exp.Union):
        raise Unsupported(f"{node.key.upper()} is not supported in an event query", node)
    a, b = left.shape, right.shape
    if a.period != b.period or a.offset != b.offset:
        raise Unsupported("both sides of a UNION need the same windows, or none", node)
    return _SourceShape(
        Shape(
            a.streams | b.streams,
            a.relations | b.relations,
            max(a.reach, b.reach),
            max(a.lag, b.lag),
            a.period,
            a.offset,
        ),
        "ts",
    )


def _infer_select(
    select: exp.Select, tables: Tables, local: Mapping[str, _SourceShape]
) -> _SourceShape:
    _check_supported(select)
    sources = _infer_sources(select, tables, local)
    streams = [source for source in sources.values() if source.time_column is not None]
    relations = frozenset().union(*(s.shape.relations for s in sources.values()))
    if not streams:
        raise Unsupported("an event query reads a stream; this reads none", select)
    windows = grouping_windows(select)
    source = _join_streams(select, sources, windows)
    source = replace(source, shape=replace(source.shape, relations=relations))
    group = select.args.get("group")
    if group is None and not any(_own_nodes(select, exp.AggFunc)):
        if windows:
            raise Unsupported("window() needs a GROUP BY", windows[0])
        return _infer_rows(
            select, source, {name for name, one in sources.items() if one.time_column is None}
        )
    grouped = [w for w in windows if w.find_ancestor(exp.Group) is group and group is not None]
    if not grouped:
        raise Unsupported(
            "an aggregate over a stream needs GROUP BY window(ts, '…')", group or select
        )
    return _infer_windows(select, source, grouped[0])


def _join_streams(
    select: exp.Select, sources: Mapping[str, _SourceShape], windows: Sequence[exp.Expr]
) -> _SourceShape:
    """The streams of a SELECT as one, at the times of one of them."""
    times = {
        alias: source.time_column
        for alias, source in sources.items()
        if source.time_column is not None
    }
    own = find_anchor(select, times, windows)
    if own is None:
        raise Unsupported(
            "a join of streams says at whose time its rows stand: alias.time AS ts", select
        )
    whole = sources[own].shape
    from_ = select.args["from_"].this.alias_or_name.lower()
    for alias, time in times.items():
        if alias == own:
            continue
        join = next(
            (j for j in select.args["joins"] if j.this.alias_or_name.lower() == alias), None
        )
        outer = [j for j in select.args["joins"] if j.side]
        if join is None:  # the anchor is joined to this one
            join = next(j for j in select.args["joins"] if j.this.alias_or_name.lower() == own)
        if any(j.side != "LEFT" for j in outer) or (outer and own != from_):
            raise Unsupported(
                "an outer join of streams is a LEFT JOIN, and ts the time of what FROM names", join
            )
        found = time_bounds(select, join, (own, times[own].lower()), (alias, time.lower()))
        if found is None:
            bound = f"{alias}.{time} BETWEEN {own}.{times[own]} - INTERVAL 5 MINUTES AND {own}.{times[own]}"
            raise Unsupported(
                f"a join of streams says how far apart in time its rows may be: AND {bound}", join
            )
        other = sources[alias].shape
        whole = replace(
            whole,
            streams=whole.streams | other.streams,
            reach=max(whole.reach, other.reach - found[0]),
            lag=max(whole.lag, other.lag + found[1]),
            period=_JOIN_PERIOD,
            offset=0,
        )
    return _SourceShape(whole, times[own])


def _check_supported(select: exp.Select) -> None:
    for kind, message in _REFUSED_NODES.items():
        for node in _own_nodes(select, kind):
            if not is_array_exists(node):
                raise Unsupported(message, node)
    for node in _own_nodes(select, exp.In):
        if node.args.get("query") is not None:
            raise Unsupported(
                "IN (SELECT …) is not supported in an event query; join a relation instead", node
            )
    for node in _own_nodes(select, exp.Subquery):
        if not isinstance(node.parent, exp.From | exp.Join):
            raise Unsupported("a subquery is supported in FROM only", node)


def is_array_exists(node: exp.Expr) -> bool:
    """Whether this is the function exists(array, x -> …), which has the name of EXISTS (SELECT …) only."""
    return isinstance(node, exp.Exists) and node.expression is not None


def _own_nodes(select: exp.Select, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Parts of this SELECT, not of those inside it."""
    return [
        n
        for n in select.find_all(kind)
        if n is not select and n.find_ancestor(exp.Select) is select
    ]


def _infer_sources(
    select: exp.Select, tables: Tables, local: Mapping[str, _SourceShape]
) -> dict[str, _SourceShape]:
    from_ = select.args.get("from_") or select.args.get("from")
    if from_ is None:
        raise Unsupported("an event query reads a stream; this reads none", select)
    found = {from_.this.alias_or_name.lower(): _infer_source(from_.this, tables, local)}
    for join in select.args.get("joins") or ():
        source = _infer_source(join.this, tables, local)
        if source.time_column is None and join.side in ("RIGHT", "FULL"):
            raise Unsupported(
                f"{join.side} JOIN of a relation: rows without an event have no time", join
            )
        found[join.this.alias_or_name.lower()] = source
    return found


def _infer_source(
    node: exp.Expr, tables: Tables, local: Mapping[str, _SourceShape]
) -> _SourceShape:
    if isinstance(node, exp.Subquery):
        return _infer_query(node.this, tables, local)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.db:
        raise Unsupported("FROM names streams, relations and derived streams only", node)
    name = node.name.lower()
    if name in local:
        return local[name]
    if name in tables.streams:
        return _SourceShape(Shape(streams=frozenset({name})), tables.streams[name])
    if name in tables.relations:
        return _SourceShape(Shape(relations=frozenset({name})), None)
    if name in tables.derived:
        rest = replace(tables, derived={n: s for n, s in tables.derived.items() if n != name})
        return _infer_query(parse(tables.derived[name]), rest, {})
    raise Unsupported(f"unknown table {node.name!r}", node)


def _infer_rows(select: exp.Select, source: _SourceShape, relations: set[str]) -> _SourceShape:
    assert source.time_column is not None
    if not any(
        isinstance(p, exp.Star) or (isinstance(p, exp.Column) and p.is_star)
        for p in select.expressions
    ):
        value = _find_output(select, "ts")
        own = isinstance(value, exp.Column) and value.table.lower() not in relations
        if not own or value.name.lower() != source.time_column.lower():
            raise Unsupported(f"ts must be the time of the stream, {source.time_column}", value)
    elif source.time_column.lower() != "ts":
        raise Unsupported(f"name the time: {source.time_column} AS ts", select)
    return _SourceShape(source.shape, "ts")


def _infer_windows(select: exp.Select, source: _SourceShape, window: exp.Expr) -> _SourceShape:
    arguments = window_arguments(window)
    time = arguments[0] if arguments else None
    if not isinstance(time, exp.Column) or time.name.lower() != (source.time_column or "").lower():
        raise Unsupported(f"window() takes the time of the stream, {source.time_column}", window)
    size, slide, start = parse_window(window, arguments[1:])
    inner, value = source.shape, _find_output(select, "ts")
    lag = {"end": -1, "start": size - 1, "time": 0, "inside": size - 1}[
        _time_position(value, source.time_column or "")
    ]
    return _SourceShape(
        replace(
            inner,
            reach=inner.reach + size,
            lag=inner.lag + lag,
            period=slide,
            offset=(start + size) % slide,
        ),
        "ts",
    )


def parse_window(window: exp.Expr, arguments: list[exp.Expr]) -> tuple[int, int, int]:
    """Size, slide and start of a window, in microseconds, from what follows its time. Raises `Unsupported`."""
    try:
        found = [
            duration_to_micros(parse_interval(a.name))
            for a in arguments
            if isinstance(a, exp.Literal) and a.is_string
        ]
    except ValueError as error:
        raise Unsupported(f"window(): {error}", window) from error
    if not found or len(found) != len(arguments) or found[0] <= 0:
        raise Unsupported("window(ts, '5 minutes') takes fixed intervals as text", window)
    size = found[0]
    slide = found[1] if len(found) > 1 else size
    if not 0 < slide <= size:
        raise Unsupported("a window's slide is above 0 and at most its size", window)
    return size, slide, found[2] if len(found) > 2 else 0


def _time_position(value: exp.Expr, time: str) -> str:
    text = value.sql(dialect="spark").lower().replace("`", "")
    if text in ("window.end", "window.start"):
        return text.removeprefix("window.")
    if text == "window_time(window)":
        return "time"
    if (
        isinstance(value, exp.Max | exp.Min)
        and isinstance(value.this, exp.Column)
        and value.this.name.lower() == time.lower()
    ):
        return "inside"
    raise Unsupported(
        f"ts of a window is window.end, window.start, max({time}) or min({time})", value
    )


def _find_output(select: exp.Select, name: str) -> exp.Expr:
    for projection in select.expressions:
        if projection.alias_or_name.lower() == name:
            value: exp.Expr = projection.this if isinstance(projection, exp.Alias) else projection
            return value
    raise Unsupported("every row of an event query has a time: select it AS ts", select)


def grouping_windows(select: exp.Select) -> list[exp.Expr]:
    """The windows by which a SELECT groups, not those of parts inside it."""
    return [
        w
        for w in select.find_all(exp.Func)
        if is_window(w) and w.find_ancestor(exp.Select) is select
    ]


def window_specs(query: exp.Expr) -> list[tuple[int, int, int]]:
    """Size, slide and start, in microseconds, of all windows of a query and what is inside it. Raises `Unsupported`."""
    return [
        parse_window(node, window_arguments(node)[1:])
        for node in query.find_all(exp.Func)
        if is_window(node)
    ]


def window_arguments(window: exp.Expr) -> list[exp.Expr]:
    """Its time, and what follows."""
    return (
        window.expressions if isinstance(window, exp.Anonymous) else list(window.iter_expressions())
    )


def is_window(node: exp.Expr) -> bool:
    """Whether this is `window(time, …)`."""
    return (isinstance(node, exp.Anonymous) and node.name.lower() == "window") or type(
        node
    ).__name__ == "WindowFunction"
