"""Rows ahead of the clock in the status."""

from datetime import UTC, datetime, timedelta

from archiver.ingest import KeyAhead
from archiver.times import to_micros
from moirae.inspect.rows_ahead import describe_rows_ahead, summarize_rows_ahead

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = 1_000_000


def _key(host: str, seconds: float, age: timedelta = timedelta(0)) -> KeyAhead:
    return KeyAhead((("host", host),), int(seconds * SECOND), to_micros(NOON - age))


def test_keys_of_the_last_hour_are_named_with_their_seconds() -> None:
    keys = [_key("a", 285.5), _key("b", 200, timedelta(hours=1)), _key("c", 3)]
    status = describe_rows_ahead(keys, 7, NOON)
    assert status == {
        "late": 7,
        "keys": [
            {"key": {"host": "a"}, "ahead_seconds": 285.5, "at": NOON},
            {"key": {"host": "c"}, "ahead_seconds": 3.0, "at": NOON},
        ],
    }


def test_line_names_the_ten_keys_furthest_ahead_of_all_streams() -> None:
    streams = {
        "cpu": {"ahead": describe_rows_ahead([_key(f"h{n}", n) for n in range(1, 10)], 5, NOON)},
        "ping": {"ahead": describe_rows_ahead([_key("a", 285), KeyAhead((), 0, 0)], 2, NOON)},
        "whole": {"ahead": describe_rows_ahead([KeyAhead((), 8, to_micros(NOON))], 0, NOON)},
    }
    line = summarize_rows_ahead(streams)
    assert line is not None
    assert line.startswith("rows ahead of the clock: ping host=a 4m45s, cpu host=h9 9s, ")
    assert line.endswith("cpu host=h1 1s; 7 other rows late because of them")


def test_no_line_without_rows_ahead() -> None:
    streams = {"cpu": {"ahead": describe_rows_ahead([], 0, NOON)}}
    assert summarize_rows_ahead(streams) is None
    streams["cpu"]["ahead"]["late"] = 1
    assert summarize_rows_ahead(streams) == (
        "rows ahead of the clock: none in the last hour; 1 other rows late because of them"
    )
