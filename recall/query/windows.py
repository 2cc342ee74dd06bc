"""Calls of the grouping function `window(time, size[, slide[, start]])`. No I/O."""

from typing import NamedTuple

from sqlglot import exp

from archiver.times import Micros, duration_to_micros
from recall.query.intervals import parse_interval
from recall.query.parsing import Unsupported


class Window(NamedTuple):
    """The windows of a call: each is `size` long, and they start at `offset` + n * `slide`."""

    size: Micros
    slide: Micros
    offset: Micros


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
    lengths = []
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
    size = slide = lengths[0]
    offset = 0
    if len(lengths) > 1:
        slide = lengths[1]
    if len(lengths) > 2:
        offset = lengths[2]
    if not 0 < slide <= size:
        raise Unsupported("the slide of a window must be positive and at most its size", window)
    return Window(size, slide, offset)


def window_specs(query: exp.Expr) -> list[Window]:
    """All windows in a query and in queries inside it. Raises `Unsupported`."""
    windows = filter(is_window, query.find_all(exp.Func))
    return [parse_window(window, window_arguments(window)[1:]) for window in windows]
