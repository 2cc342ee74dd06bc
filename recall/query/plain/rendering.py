"""How engines say what plain queries are written as. Pure."""

from collections.abc import Sequence

from recall.query.plain.model import PANES_TABLE, PlainAggregate, Window


def _quote(name: str, quote_mark: str) -> str:
    return quote_mark + name.replace(quote_mark, quote_mark * 2) + quote_mark


class SparkDialect:
    """Spark's: it knows windows itself."""

    pane_dialect = None

    def quote(self, name: str) -> str:
        """See `Words`."""
        return _quote(name, "`")

    def assign_windows(self, source: str, alias: str, time: str, window: Window) -> tuple[str, str]:
        """See `Words`."""
        spans = ", ".join(f"'{span} microseconds'" for span in window)
        return f"{source} AS {alias}", f"window({time}, {spans})"

    def window_bound(self, column: str, side: str, window: Window) -> str:
        """See `Words`."""
        return f"{column}.{side}"


def _window_starts(at: str, window: Window) -> tuple[str, str]:
    """When the first and the last of the windows start that hold a moment; all in microseconds."""
    size, slide, offset = window
    last = f"({at} - (({at} - {offset}) % {slide} + {slide}) % {slide})"
    # The first starts less than `size` before the moment.
    return f"({last} - (({size - 1} - ({at} - {last})) // {slide}) * {slide})", last


class DuckDBPaneDialect:
    """DuckDB's way from panes to windows; see `PaneWords`."""

    def assign_windows(self, window: Window) -> str:
        """See `PaneWords`."""
        first, last = _window_starts("_w", window)
        starts = f"unnest(range(greatest({first}, $low), least({last}, $high) + 1, {window[1]})) AS _start"
        return f"(SELECT {PANES_TABLE}.*, {starts} FROM {PANES_TABLE})"

    def partial_aggregates(self, aggregate: PlainAggregate) -> tuple[str, ...]:
        """See `PaneWords`."""
        of = aggregate.operand
        if aggregate.kind == "avg":
            return f"sum({of})", f"count({of})"
        if aggregate.kind == "count_distinct":
            return (f"list(DISTINCT {of}) FILTER (WHERE {of} IS NOT NULL)",)
        return (aggregate.expression.sql,)

    def merge_aggregate(self, aggregate: PlainAggregate, parts: Sequence[str]) -> str:
        """See `PaneWords`."""
        match aggregate.kind:
            case "count" | "sum":
                return f"CAST(sum({parts[0]}) AS {aggregate.expression.type.upper()})"
            case "avg":
                return f"sum({parts[0]}) / sum({parts[1]})"
            case "count_distinct":
                return f"len(list_distinct(flatten(list({parts[0]}))))"
        return f"{aggregate.kind}({parts[0]})"


class DuckDBDialect:
    """DuckDB's: a window is the microsecond at which it starts."""

    pane_dialect = DuckDBPaneDialect()

    def quote(self, name: str) -> str:
        """See `Words`."""
        return _quote(name, '"')

    def assign_windows(self, source: str, alias: str, time: str, window: Window) -> tuple[str, str]:
        """See `Words`."""
        size, slide, _ = window
        first, last = _window_starts(f"epoch_us({time})", window)
        if slide == size:
            return f"{source} AS {alias}", last
        starts = f"unnest(range({first}, {last} + 1, {slide})) AS _start"
        return (
            f"(SELECT {alias}.*, {starts} FROM {source} AS {alias}) AS {alias}",
            f"{alias}._start",
        )

    def window_bound(self, column: str, side: str, window: Window) -> str:
        """See `Words`."""
        return f"make_timestamptz({column}{'' if side == 'start' else f' + {window[0]}'})"
