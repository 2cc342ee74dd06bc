"""Pictures as SVG."""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from moirae.cli.pictures import draw_bars, draw_calendar

_SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_in_proportion_to_counts_and_names_are_escaped() -> None:
    root = ET.fromstring(draw_bars("Alerts", ("bad", "good"), [("a<b", 1, 3), ("c", 0, 2)]))
    widths = [float(shape.attrib["width"]) for shape in root.iter(f"{_SVG}rect")]
    assert widths == [105, 315, 0, 210]
    assert "a<b" in [shape.text for shape in root.iter(f"{_SVG}text")]
    ET.fromstring(draw_bars("none", ("bad", "good"), []))


def test_calendar_has_a_cell_for_each_hour() -> None:
    times = [datetime(2026, 1, 2, 3, minute, tzinfo=UTC) for minute in range(5)]
    root = ET.fromstring(draw_calendar("Alerts", ["2026-01-01", "2026-01-02"], times))
    cells = list(root.iter(f"{_SVG}rect"))
    assert len(cells) == 48
    (busy,) = [cell for cell in cells if cell.attrib["fill-opacity"] == "1.00"]
    assert busy[0].text == "2026-01-02 03:00: 5"
