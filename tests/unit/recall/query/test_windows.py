"""Calls of window() in queries."""

import pytest

from recall.query.bind import PhysicalTables, bind_query
from recall.query.parsing import Unsupported, parse
from recall.query.shape import Tables
from recall.query.windows import Window, restore_windows, window_specs

MINUTE = 60_000_000  # microseconds
HOUR = 60 * MINUTE
SINCE = "since('07:00', 'Europe/Rome')"


@pytest.mark.parametrize(
    ("window", "spec"),
    [
        ("window(ts, '5 minutes')", (5 * MINUTE, 5 * MINUTE, 0)),
        ("window(ts, '5 minutes', '1 minute')", (5 * MINUTE, MINUTE, 0)),
        ("window(ts, '5 minutes', '5 minutes', '2 minutes')", (5 * MINUTE, 5 * MINUTE, 2 * MINUTE)),
    ],
)
def test_size_slide_and_start_are_read(window: str, spec: tuple[int, int, int]) -> None:
    query = parse(f"SELECT max(ts) AS ts FROM t GROUP BY {window}")
    assert window_specs(query) == [Window(*spec)]


@pytest.mark.parametrize(
    ("window", "slide", "size", "period"),
    [
        (f"window(ts, {SINCE}, '15 minutes')", 15 * MINUTE, 25 * HOUR + 15 * MINUTE, 15 * MINUTE),
        (f"window(ts, {SINCE})", 25 * HOUR, 26 * HOUR, HOUR),
        ("window(ts, since('00:00'), '1 hour')", HOUR, 25 * HOUR, HOUR),
    ],
)
def test_windows_since_a_time_of_the_day(window: str, slide: int, size: int, period: int) -> None:
    query = parse(f"SELECT window.end AS ts FROM t GROUP BY {window}")
    (spec,) = window_specs(query)
    assert (spec.slide, spec.size, spec.offset) == (slide, size, 0)
    assert spec.start_period == spec.pane_length == period
    assert spec.overlaps


def test_bound_windows_since_a_time_of_the_day_are_a_view() -> None:
    sql = f"SELECT window.end AS ts, n FROM t GROUP BY n, window(ts, {SINCE}, '1 hour')"
    bound = bind_query(sql, Tables({"t": "ts"}), PhysicalTables({"t": "in_t"}))
    text = bound.sql(dialect="spark")
    assert "LATERAL VIEW" in text
    assert text.endswith("GROUP BY n, window")
    assert window_specs(bound) == window_specs(parse(sql))
    restored = restore_windows(bound).sql(dialect="spark")  # type: ignore[arg-type]
    assert restored == parse(sql).sql(dialect="spark").replace("FROM t", "FROM in_t AS `t`")


def test_windows_of_inner_queries_are_included() -> None:
    query = parse(
        "SELECT max(ts) AS ts FROM "
        "(SELECT window.end AS ts FROM t GROUP BY window(ts, '1 minute')) "
        "GROUP BY window(ts, '2 minutes')"
    )
    assert {spec.size for spec in window_specs(query)} == {MINUTE, 2 * MINUTE}


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("window(ts, 5)", "must be constant text"),
        ("window(ts)", "must be constant text"),
        ("window(ts, '0 minutes')", "must be constant text"),
        ("window(ts, '1 month')", "is not a fixed interval"),
        ("window(ts, '1 minute', '2 minutes')", "the slide of a window"),
        ("window(ts, '1 minute', '-1 minutes')", "the slide of a window"),
        ("window(ts, since('7am', 'Europe/Rome'), '1 hour')", "not a time of the day"),
        ("window(ts, since('07:00', 'Europe/Roma'), '1 hour')", "unknown time zone"),
        ("window(ts, since(7), '1 hour')", "needs a time of the day and a zone"),
        (f"window(ts, {SINCE}, '1 day')", "omit it for one window a day"),
        (f"window(ts, {SINCE}, '1 second')", "from 1 minute"),
        (f"window(ts, {SINCE}, 5)", "must be constant text"),
        (f"window(ts, {SINCE}, '1 hour', '1 minute')", "has no start"),
    ],
)
def test_other_windows_are_rejected(window: str, message: str) -> None:
    query = parse(f"SELECT max(ts) AS ts FROM t GROUP BY {window}")
    with pytest.raises(Unsupported, match=message):
        window_specs(query)
