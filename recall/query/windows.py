"""Calls of the grouping functions `window(time, size[, slide[, start]])` and
`window(time, since('HH:MM', 'ZONE')[, step])`. No I/O.
"""

from math import gcd
from typing import NamedTuple

from sqlglot import exp

from archiver.times import Micros, duration_to_micros
from recall.history_ranges import DAY, MINUTE, Landmark, parse_landmark
from recall.query.intervals import parse_interval
from recall.query.landmarks import alignment, longest_distance
from recall.query.parsing import Unsupported

# Of windows since a time of the day: each row belongs to as many as remain of its day.
_MIN_STEP = MINUTE
# In the `meta` of the LATERAL VIEW that a bound query has in place of a window since a time of the
# day: the call of window().
CALL = "window_call"


class Window(NamedTuple):
    """The windows of a call: each is `size` long, and they start at `offset` + n * `slide`.

    With a `landmark` they start there and end each `slide` after it, and at the next landmark; no
    window is longer than `size`, and times are aligned if `size` and `offset` are.
    """

    size: Micros
    slide: Micros
    offset: Micros
    landmark: Landmark | None = None

    @property
    def pane_length(self) -> Micros:
        """The greatest length of which all borders of windows are multiples, but for `offset`."""
        if self.landmark is not None:
            return alignment(self.landmark, self.slide)
        return gcd(self.size, self.slide)

    @property
    def start_period(self) -> Micros:
        """The time, but for `offset`, of which the ends of windows less `size` are multiples."""
        return self.slide if self.landmark is None else self.pane_length

    @property
    def overlaps(self) -> bool:
        """Whether a row may belong to several windows."""
        return self.slide < self.size


def is_window(node: exp.Expr) -> bool:
    """Whether a function call is `window(time, …)`."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() == "window"
    return type(node).__name__ == "WindowFunction"


def window_arguments(window: exp.Expr) -> list[exp.Expr]:
    """The time column, then the intervals."""
    if isinstance(window, exp.Anonymous):
        return window.expressions
    return list(window.iter_expressions())


def grouping_windows(select: exp.Select) -> list[exp.Expr]:
    """The calls of window() in a SELECT itself, without those in queries inside it."""
    windows: list[exp.Expr] = []
    for node in select.find_all(exp.Func):
        if is_window(node) and node.find_ancestor(exp.Select) is select:
            windows.append(node)
    return windows


def parse_window(window: exp.Expr, intervals: list[exp.Expr]) -> Window:
    """Parse the call of a window. Raises `Unsupported`.

    `intervals`: the arguments after the time. The slide defaults to the size, the offset to 0.
    """
    if intervals and _is_since(intervals[0]):
        return _parse_landmark_window(window, intervals[0], intervals[1:])
    lengths = _parse_lengths(window, intervals)
    size = slide = lengths[0]
    offset = 0
    if len(lengths) > 1:
        slide = lengths[1]
    if len(lengths) > 2:
        offset = lengths[2]
    if not 0 < slide <= size:
        raise Unsupported("the slide of a window must be positive and at most its size", window)
    return Window(size, slide, offset)


def _parse_lengths(window: exp.Expr, intervals: list[exp.Expr]) -> list[Micros]:
    """The first is positive."""
    lengths: list[Micros] = []
    for interval in intervals:
        if not isinstance(interval, exp.Literal) or not interval.is_string:
            continue
        try:
            lengths.append(duration_to_micros(parse_interval(interval.name)))
        except ValueError as error:
            raise Unsupported(f"window(): {error}", window) from error
    if not lengths or len(lengths) != len(intervals) or lengths[0] <= 0:
        raise Unsupported(
            "the intervals of window() must be constant text, e.g. window(ts, '5 minutes')", window
        )
    return lengths


def _is_since(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "since"


def _parse_landmark_window(window: exp.Expr, since: exp.Expr, steps: list[exp.Expr]) -> Window:
    """`window(time, since('HH:MM', 'ZONE'), step)`; without a step, one window from one to the next."""
    texts = [node.name for node in since.expressions if node.is_string]
    if len(texts) != len(since.expressions) or not 1 <= len(texts) <= 2:
        raise Unsupported(
            "since() needs a time of the day and a zone, e.g. since('07:00', 'Europe/Rome')", window
        )
    try:
        landmark = parse_landmark(texts[0], texts[1] if len(texts) > 1 else "UTC")
    except ValueError as error:
        raise Unsupported(f"since(): {error}", window) from error
    if len(steps) > 1:
        raise Unsupported("a window since a time of the day has no start", window)
    distance = longest_distance(landmark)
    step = _parse_lengths(window, steps)[0] if steps else distance
    if steps and not _MIN_STEP <= step < DAY:
        raise Unsupported(
            "the step of a window since a time of the day must be from 1 minute to below 1 day; "
            "omit it for one window a day",
            window,
        )
    # Longer than any window by the length of a pane: rows are read from a border of panes on.
    return Window(distance + alignment(landmark, step), step, 0, landmark)


def window_specs(query: exp.Expr) -> list[Window]:
    """All windows in a query, bound or not, and in queries inside it. Raises `Unsupported`."""
    windows = list(filter(is_window, query.find_all(exp.Func)))
    for view in query.find_all(exp.Lateral):
        if CALL in view.meta:
            windows.append(view.meta[CALL])
    return [parse_window(window, window_arguments(window)[1:]) for window in windows]


def restore_windows(select: exp.Select) -> exp.Select:
    """A bound SELECT with the calls of window() in place of their views; the same without any."""
    if not any(CALL in view.meta for view in select.args.get("laterals") or ()):
        return select
    restored = select.copy()
    views = restored.args["laterals"]
    (view,) = (view for view in views if CALL in view.meta)
    for key in restored.args["group"].expressions:
        if isinstance(key, exp.Column) and key.name.lower() == "window" and not key.table:
            key.replace(view.meta[CALL].copy())
    restored.set("laterals", [other for other in views if other is not view] or None)
    return restored
