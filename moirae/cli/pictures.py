"""Pictures of counts as SVG: bars by name, and a calendar of days and hours."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape

import typer

from moirae.errors import MoiraeError

PictureOption = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE", help="Write a picture (SVG), too."),
]

_FIRST_COLOR = "#c0392b"
_SECOND_COLOR = "#95a5a6"
_CELL = 14  # pixels
_ROW = 22
_LABEL = 260  # of the names of bars
_DAY_LABEL = 90
_BAR = 420  # of the longest bar
_HOURS = 24
_LEGEND = 40


def write_picture(path: Path, svg: str) -> None:
    """Raises `MoiraeError`."""
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise MoiraeError(f"{path}: cannot be written: {error.strerror or error}") from error


def draw_bars(title: str, parts: tuple[str, str], rows: Sequence[tuple[str, int, int]]) -> str:
    """A bar of two parts for each row: name, first and second count. `parts`: what they are."""
    highest = max([first + second for _, first, second in rows], default=0) or 1
    shapes: list[str] = []
    for number, (name, first, second) in enumerate(rows):
        y = _LEGEND + number * _ROW
        widths = [_BAR * count / highest for count in (first, second)]
        shapes.append(_text(_LABEL - 8, y + 14, name, "end"))
        shapes.append(_rectangle(_LABEL, y + 3, widths[0], _ROW - 6, _FIRST_COLOR))
        shapes.append(_rectangle(_LABEL + widths[0], y + 3, widths[1], _ROW - 6, _SECOND_COLOR))
        shapes.append(_text(_LABEL + sum(widths) + 6, y + 14, f"{first} + {second}"))
    legend = f"{title}: {parts[0]} (red) + {parts[1]} (grey)"
    return _frame(_LABEL + _BAR + 100, _LEGEND + len(rows) * _ROW, legend, shapes)


def draw_calendar(title: str, days: Sequence[str], times: Sequence[datetime]) -> str:
    """A row for each day, a cell for each hour in UTC, as dark as things happened in it."""
    counts: dict[tuple[str, int], int] = {}
    for moment in times:
        cell = moment.date().isoformat(), moment.hour
        counts[cell] = counts.get(cell, 0) + 1
    highest = max(counts.values(), default=1)
    shapes = [
        _text(_DAY_LABEL + hour * _CELL, _LEGEND - 4, str(hour)) for hour in range(0, _HOURS, 6)
    ]
    for number, day in enumerate(days):
        y = _LEGEND + number * _CELL
        shapes.append(_text(0, y + 11, day))
        shapes += _draw_day(counts, day, y, highest)
    return _frame(_DAY_LABEL + _HOURS * _CELL, _LEGEND + len(days) * _CELL, title, shapes)


def _draw_day(counts: Mapping[tuple[str, int], int], day: str, y: float, highest: int) -> list[str]:
    cells: list[str] = []
    for hour in range(_HOURS):
        count = counts.get((day, hour), 0)
        opacity = 0.06 if not count else 0.25 + 0.75 * count / highest
        x = _DAY_LABEL + hour * _CELL
        hint = f"<title>{day} {hour:02}:00: {count}</title>"
        size = _CELL - 2
        cells.append(_rectangle(x, y, size, size, _FIRST_COLOR, opacity, hint))
    return cells


def _frame(width: float, height: float, title: str, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        'font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, _text(0, 14, title), *shapes, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    color: str,
    opacity: float = 1.0,
    content: str = "",
) -> str:
    shape = f'x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}"'
    return f'<rect {shape} fill="{color}" fill-opacity="{opacity:.2f}">{content}</rect>'
