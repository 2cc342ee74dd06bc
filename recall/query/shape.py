"""The shape of an event query: which tables it reads, how far back, and when its rows are complete.

A query is evaluated over slices of event time. For rows with `ts` in [a, b) it reads the input in
[a - reach, b + lag), all of it settled: a row at `ts` is complete when the watermark w of its
streams satisfies w > ts + lag. Filters have lag 0; a window whose rows carry `window.end` is
complete as soon as w reaches its end. Because no other part of the past is read, live evaluation,
batch evaluation and replicas compute the same rows. No I/O.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from archiver.times import Micros
from recall.query.joins import find_anchor, time_bounds
from recall.query.parsing import Unsupported, read_query
from recall.query.parts import (
    check_in_lists,
    check_nodes,
    check_subqueries_in_from,
    check_table_alias,
    common_tables,
    joins_of,
    own_nodes,
)
from recall.query.windows import grouping_windows, parse_window, window_arguments

# A row of a join is complete some time after it arrived: joins are evaluated at each such step of
# event time.
_JOIN_PERIOD = 1_000_000  # microseconds

_UNSUPPORTED_NODES: dict[type[exp.Expr], str] = {
    exp.Window: (
        "window functions (OVER) need all rows around a row; use GROUP BY window(ts, '…')"
    ),
    exp.Limit: "LIMIT is not supported in an event query; filter with WHERE",
    exp.Exists: "EXISTS is not supported in an event query; join a relation instead",
    exp.Pivot: "PIVOT is not supported in an event query",
    exp.TableSample: "TABLESAMPLE is not supported in an event query",
    # The parser would write these differently.
    exp.WithinGroup: "WITHIN GROUP is not supported; use percentile(x, 0.5) or median(x)",
    exp.GroupConcat: (
        "listagg depends on the order of rows; use array_join(array_sort(collect_list(x)), ', ')"
    ),
}


@dataclass(frozen=True)
class Tables:
    """The tables that queries may read, by name in lower case.

    `streams`: with their time column; `derived`: derived streams with their SQL. `earlier`: streams
    of which a query about an event reads rows before the event only, whatever its delay.
    """

    streams: Mapping[str, str]
    relations: frozenset[str] = frozenset()
    derived: Mapping[str, str] = field(default_factory=dict)
    earlier: frozenset[str] = frozenset()

    def without_derived(self, name: str) -> "Tables":
        """These tables as the SQL of a derived stream may read them: all but itself."""
        derived = dict(self.derived)
        del derived[name]
        return replace(self, derived=derived)


def find_horizon(
    streams: Collection[str], watermarks: Mapping[str, Micros | None], lag: Micros
) -> Micros | None:
    """The event time that all of some streams have passed by `lag` microseconds.

    None: a stream has no watermark yet, or there is no stream.
    """
    stream_watermarks: list[Micros] = []
    for stream in streams:
        watermark = watermarks.get(stream)
        if watermark is None:
            return None
        stream_watermarks.append(watermark)
    if not stream_watermarks:
        return None
    return min(stream_watermarks) - lag


@dataclass(frozen=True)
class Shape:
    """See the module. Times in microseconds.

    Windows close at `offset` plus multiples of `period`; None: the query has no windows.
    """

    streams: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()
    reach: Micros = 0
    lag: Micros = 0
    period: Micros | None = None
    offset: Micros = 0

    @property
    def is_stateless(self) -> bool:
        """Each input row is evaluated alone, so that events can be detected at once."""
        return self.period is None

    def horizon(self, watermarks: Mapping[str, Micros | None]) -> Micros | None:
        """The event time before which results are complete; None: a stream has no watermark yet."""
        return find_horizon(self.streams, watermarks, self.lag)

    def closes_window(self, before: Micros | None, now: Micros) -> bool:
        """Whether a watermark that moves from `before` to `now` closes a window.

        True without windows, and where no earlier watermark is known.
        """
        if self.period is None or before is None:
            return True
        return (now - self.offset) // self.period > (before - self.offset) // self.period


@dataclass(frozen=True)
class _SourceShape:
    """A table in FROM: its shape and the name of its time column (None for a relation)."""

    shape: Shape
    time_column: str | None


def infer_shape(sql: str, tables: Tables) -> Shape:
    """The shape of an event query or derived stream. Raises `Unsupported`."""
    return _infer_query(read_query(sql), tables, {}).shape


def _infer_query(
    query: exp.Expr, tables: Tables, local_tables: Mapping[str, _SourceShape]
) -> _SourceShape:
    if isinstance(query, exp.Subquery):
        return _infer_query(query.this, tables, local_tables)
    visible_tables = dict(local_tables)
    for cte in common_tables(query):
        visible_tables[cte.alias.lower()] = _infer_query(cte.this, tables, visible_tables)
    if isinstance(query, exp.SetOperation):
        first = _infer_query(query.this, tables, visible_tables)
        second = _infer_query(query.expression, tables, visible_tables)
        return _infer_union(first, second, query)
    if not isinstance(query, exp.Select):
        raise Unsupported("expected a single SELECT statement", query)
    return _infer_select(query, tables, visible_tables)


def _infer_union(first: _SourceShape, second: _SourceShape, node: exp.Expr) -> _SourceShape:
    if not isinstance(node, exp.Union):
        raise Unsupported(f"{node.key.upper()} is not supported in an event query", node)
    a, b = first.shape, second.shape
    if a.period != b.period or a.offset != b.offset:
        raise Unsupported("both sides of a UNION need the same windows, or none", node)
    shape = Shape(
        streams=a.streams | b.streams,
        relations=a.relations | b.relations,
        reach=max(a.reach, b.reach),
        lag=max(a.lag, b.lag),
        period=a.period,
        offset=a.offset,
    )
    return _SourceShape(shape, "ts")


# SELECT


def _infer_select(
    select: exp.Select, tables: Tables, local_tables: Mapping[str, _SourceShape]
) -> _SourceShape:
    _check_supported(select)
    sources = _infer_sources(select, tables, local_tables)
    relation_aliases = {alias for alias, s in sources.items() if s.time_column is None}
    if len(relation_aliases) == len(sources):
        raise Unsupported("an event query must read a stream", select)
    windows = grouping_windows(select)
    source = _join_streams(select, sources, windows)
    relations = frozenset().union(*(s.shape.relations for s in sources.values()))
    source = replace(source, shape=replace(source.shape, relations=relations))
    group = select.args.get("group")
    if group is None and not own_nodes(select, exp.AggFunc):
        if windows:
            raise Unsupported("window() requires GROUP BY", windows[0])
        return _infer_rows(select, source, relation_aliases)
    for window in windows:
        if group is not None and window.find_ancestor(exp.Group) is group:
            return _infer_windows(select, source, window)
    if group is not None and not windows and _is_grouped_by_time(group, source):
        return _infer_rows(select, source, relation_aliases)
    raise Unsupported(
        "an aggregate over a stream requires GROUP BY window(ts, '…')", group or select
    )


def _is_grouped_by_time(group: exp.Expr, source: _SourceShape) -> bool:
    """Whether the rows of a group have one time: they are evaluated as single rows are."""
    return any(
        isinstance(key, exp.Column) and key.name.lower() == (source.time_column or "").lower()
        for key in group.expressions
    )


def _check_supported(select: exp.Select) -> None:
    check_nodes(select, _UNSUPPORTED_NODES)
    check_in_lists(
        select, "IN (SELECT …) is not supported in an event query; join a relation instead"
    )
    check_subqueries_in_from(select)


def _infer_rows(
    select: exp.Select, source: _SourceShape, relation_aliases: set[str]
) -> _SourceShape:
    """The shape of a query that filters and projects rows."""
    time_column = source.time_column
    assert time_column is not None
    if select.is_star:
        if time_column.lower() != "ts":
            raise Unsupported(f"select the event time as ts: {time_column} AS ts", select)
        return _SourceShape(source.shape, "ts")
    time = _find_output(select, "ts")
    is_stream_column = isinstance(time, exp.Column) and time.table.lower() not in relation_aliases
    if not is_stream_column or time.name.lower() != time_column.lower():
        raise Unsupported(f"ts must be the time of the stream, {time_column}", time)
    return _SourceShape(source.shape, "ts")


def _infer_windows(select: exp.Select, source: _SourceShape, window: exp.Expr) -> _SourceShape:
    """The shape of a query that groups by windows."""
    time_column = source.time_column or ""
    arguments = window_arguments(window)
    time = arguments[0] if arguments else None
    if not isinstance(time, exp.Column) or time.name.lower() != time_column.lower():
        raise Unsupported(
            f"the first argument of window() must be the time of the stream, {source.time_column}",
            window,
        )
    parsed_window = parse_window(window, arguments[1:])
    shape = source.shape
    output_time = _find_output(select, "ts")
    lag = _window_lag(output_time, time_column, parsed_window.size)
    if parsed_window.landmark is not None and lag != -1:
        raise Unsupported("ts of a window since a time of the day must be window.end", output_time)
    period = parsed_window.start_period
    windowed_shape = replace(
        shape,
        reach=shape.reach + parsed_window.size,
        lag=shape.lag + lag,
        period=period,
        offset=(parsed_window.offset + parsed_window.size) % period,
    )
    return _SourceShape(windowed_shape, "ts")


def _window_lag(output_time: exp.Expr, time_column: str, size: Micros) -> Micros:
    """How far after a windowed row's `ts` its last input row may be, in microseconds."""
    text = output_time.sql(dialect="spark").lower().replace("`", "")
    if text == "window.end":
        return -1  # the end is exclusive
    if text == "window_time(window)":
        return 0
    if text == "window.start":
        return size - 1
    is_row_time = (
        isinstance(output_time, exp.Max | exp.Min)
        and isinstance(output_time.this, exp.Column)
        and output_time.this.name.lower() == time_column.lower()
    )
    if is_row_time:
        return size - 1
    raise Unsupported(
        "ts of a window must be window.end, window.start, "
        f"max({time_column}) or min({time_column})",
        output_time,
    )


def _find_output(select: exp.Select, name: str) -> exp.Expr:
    for output in select.expressions:
        if output.alias_or_name.lower() == name:
            value: exp.Expr = output.unalias()
            return value
    raise Unsupported("an event query must select its event time AS ts", select)


# FROM


def _infer_sources(
    select: exp.Select, tables: Tables, local_tables: Mapping[str, _SourceShape]
) -> dict[str, _SourceShape]:
    """The shapes of the tables in FROM and JOIN, by alias in lower case."""
    from_ = select.args.get("from_")
    if from_ is None:
        raise Unsupported("an event query must read a stream", select)
    sources = {from_.this.alias_or_name.lower(): _infer_source(from_.this, tables, local_tables)}
    for join in joins_of(select):
        source = _infer_source(join.this, tables, local_tables)
        if source.time_column is None and join.side in ("RIGHT", "FULL"):
            raise Unsupported(
                f"{join.side} JOIN of a relation is not supported: its unmatched rows have no "
                "event time",
                join,
            )
        sources[join.this.alias_or_name.lower()] = source
    return sources


def _infer_source(
    node: exp.Expr, tables: Tables, local_tables: Mapping[str, _SourceShape]
) -> _SourceShape:
    if isinstance(node, exp.Subquery):
        return _infer_query(node.this, tables, local_tables)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.db:
        raise Unsupported("FROM supports only streams, relations and derived streams", node)
    name = node.name.lower()
    if name in local_tables:
        return local_tables[name]
    check_table_alias(node)
    if name in tables.streams:
        return _SourceShape(Shape(streams=frozenset({name})), tables.streams[name])
    if name in tables.relations:
        return _SourceShape(Shape(relations=frozenset({name})), None)
    if name in tables.derived:
        return _infer_query(read_query(tables.derived[name]), tables.without_derived(name), {})
    raise Unsupported(f"unknown table {node.name!r}", node)


# Joins of streams


def _join_streams(
    select: exp.Select, sources: Mapping[str, _SourceShape], windows: Sequence[exp.Expr]
) -> _SourceShape:
    """The streams of a SELECT as one source with the time of one of them."""
    times: dict[str, str] = {}
    for alias, source in sources.items():
        if source.time_column is not None:
            times[alias] = source.time_column
    anchor = find_anchor(select, times, windows)
    if anchor is None:
        raise Unsupported(
            "a stream join must select one side's time as ts, e.g. `a.ts AS ts`", select
        )
    anchor_time = times[anchor]
    shape = sources[anchor].shape
    for alias, time in times.items():
        if alias == anchor:
            continue
        join = _find_join(select, alias) or _find_join(select, anchor)
        assert join is not None  # one of two tables is joined to the other
        _check_outer_joins(select, join, anchor)
        bounds = time_bounds(select, join, (anchor, anchor_time.lower()), (alias, time.lower()))
        if bounds is None:
            low = f"{anchor}.{anchor_time} - INTERVAL 5 MINUTES"
            example = f"AND {alias}.{time} BETWEEN {low} AND {anchor}.{anchor_time}"
            raise Unsupported(
                f"a stream join must bound the time between its rows, e.g. `{example}`", join
            )
        shape = _add_joined_stream(shape, sources[alias].shape, bounds)
    return _SourceShape(shape, anchor_time)


def _find_join(select: exp.Select, alias: str) -> exp.Join | None:
    for join in joins_of(select):
        if join.this.alias_or_name.lower() == alias:
            return join
    return None


def _check_outer_joins(select: exp.Select, join: exp.Join, anchor: str) -> None:
    """Raises `Unsupported` unless all outer joins are LEFT JOINs that begin with the anchor."""
    first_alias = select.args["from_"].this.alias_or_name.lower()
    for outer_join in filter(lambda candidate: candidate.side, joins_of(select)):
        if outer_join.side != "LEFT" or anchor != first_alias:
            raise Unsupported(
                "an outer join of streams must be a LEFT JOIN, "
                "with the time of the stream in FROM as ts",
                join,
            )


def _add_joined_stream(anchor: Shape, joined: Shape, bounds: tuple[int, int]) -> Shape:
    low, high = bounds
    return replace(
        anchor,
        streams=anchor.streams | joined.streams,
        reach=max(anchor.reach, joined.reach - low),
        lag=max(anchor.lag, joined.lag + high),
        period=_JOIN_PERIOD,
        offset=0,
    )
