"""The dialects of Spark and DuckDB for plain queries. See `SqlDialect` and `PaneDialect`."""

from collections.abc import Sequence

from sqlglot import exp

from recall.query.landmark_windows import (
    duckdb_windows,
    duckdb_windows_of_panes,
    spark_windows,
)
from recall.query.plain.json_paths import to_duckdb_path, to_spark_path
from recall.query.plain.model import JsonPath, PlainAggregate, Window
from recall.query.sql_names import HIGH, JSON_TEXT, LOW, PANES_TABLE, WINDOW_BOUNDS_TABLE


def _quote(name: str, quote_mark: str) -> str:
    return quote_mark + name.replace(quote_mark, quote_mark * 2) + quote_mark


class SparkDialect:
    """Spark's SQL, which has windows as a function."""

    pane_dialect = None

    def quote(self, name: str) -> str:
        """See `SqlDialect`."""
        return _quote(name, "`")

    def string(self, value: str) -> str:
        """See `SqlDialect`."""
        return exp.Literal.string(value).sql(dialect="spark")

    def json_text(self, json: str, keys: JsonPath) -> str:
        """See `SqlDialect`."""
        return f"get_json_object({json}, {self.string(to_spark_path(keys))})"

    def assign_windows(self, source: str, alias: str, time: str, window: Window) -> tuple[str, str]:
        """See `SqlDialect`."""
        if window.landmark is not None:
            rows = f"SELECT {alias}.*, explode({spark_windows(time, window)}) AS _start"
            return f"({rows} FROM {source} AS {alias}) AS {alias}", f"{alias}._start"
        lengths = (window.size, window.slide, window.offset)
        intervals = ", ".join(f"'{length} microseconds'" for length in lengths)
        return f"{source} AS {alias}", f"window({time}, {intervals})"

    def window_bound(self, column: str, side: str, window: Window) -> str:
        """See `SqlDialect`."""
        return f"{column}.{side}"


def _window_starts(time: str, window: Window) -> tuple[str, str]:
    """SQL for the starts of the first and the last window that hold a time; in microseconds."""
    size, slide, offset = window.size, window.slide, window.offset
    last = f"({time} - (({time} - {offset}) % {slide} + {slide}) % {slide})"
    # The first starts less than `size` before the time.
    first = f"({last} - (({size - 1} - ({time} - {last})) // {slide}) * {slide})"
    return first, last


class DuckDBPaneDialect:
    """DuckDB's SQL to merge panes into windows."""

    def assign_windows(self, window: Window) -> str:
        """See `PaneDialect`."""
        if window.landmark is not None:
            return duckdb_windows_of_panes(PANES_TABLE, WINDOW_BOUNDS_TABLE, LOW, HIGH, window)
        first, last = _window_starts("_w", window)
        bounds = f"greatest({first}, {LOW}), least({last}, {HIGH}) + 1, {window.slide}"
        return (
            f"(SELECT {PANES_TABLE}.*, unnest(range({bounds})) AS _start "
            f"FROM {PANES_TABLE} CROSS JOIN {WINDOW_BOUNDS_TABLE})"
        )

    def partial_aggregates(self, aggregate: PlainAggregate) -> tuple[str, ...]:
        """See `PaneDialect`."""
        operand = aggregate.operand
        if aggregate.kind == "avg":
            return f"sum({operand})", f"count({operand})"
        if aggregate.kind == "count_distinct":
            return (f"list(DISTINCT {operand}) FILTER (WHERE {operand} IS NOT NULL)",)
        return (aggregate.expression.sql,)

    def merge_aggregate(self, aggregate: PlainAggregate, part_columns: Sequence[str]) -> str:
        """See `PaneDialect`."""
        part = part_columns[0]
        match aggregate.kind:
            case "count" | "sum":
                return f"CAST(sum({part}) AS {aggregate.expression.type.upper()})"
            case "avg":
                return f"sum({part}) / sum({part_columns[1]})"
            case "count_distinct":
                return f"len(list_distinct(flatten(list({part}))))"
        return f"{aggregate.kind}({part})"


class DuckDBDialect:
    """DuckDB's SQL. A window is represented by the microsecond at which it starts (see also
    `landmark_windows`).
    """

    pane_dialect = DuckDBPaneDialect()

    def quote(self, name: str) -> str:
        """See `SqlDialect`."""
        return _quote(name, '"')

    def string(self, value: str) -> str:
        """See `SqlDialect`."""
        return exp.Literal.string(value).sql(dialect="duckdb")

    def json_text(self, json: str, keys: JsonPath) -> str:
        """See `SqlDialect`."""
        return f"{JSON_TEXT}({json}, {self.string(to_duckdb_path(keys))})"

    def assign_windows(self, source: str, alias: str, time: str, window: Window) -> tuple[str, str]:
        """See `SqlDialect`."""
        micros = f"epoch_us({time})"
        if window.landmark is not None:
            return duckdb_windows(source, alias, micros, window)
        first, last = _window_starts(micros, window)
        if not window.overlaps:
            return f"{source} AS {alias}", last
        starts = f"unnest(range({first}, {last} + 1, {window.slide})) AS _start"
        rows = f"SELECT {alias}.*, {starts} FROM {source} AS {alias}"
        return f"({rows}) AS {alias}", f"{alias}._start"

    def window_bound(self, column: str, side: str, window: Window) -> str:
        """See `SqlDialect`."""
        if window.landmark is not None:
            return f"make_timestamptz({column}['{side}'])"
        if side == "start":
            return f"make_timestamptz({column})"
        return f"make_timestamptz({column} + {window.size})"
