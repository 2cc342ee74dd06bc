"""Shapes of event queries: what they read and when their rows are complete."""

import pytest

from recall.query.parsing import Unsupported
from recall.query.shape import Shape, Tables, infer_shape

SECOND = 1_000_000  # microseconds
MINUTE = 60 * SECOND
TABLES = Tables(
    {"cpu": "ts", "ping": "at"},
    frozenset({"hosts"}),
    {"load": "SELECT host, window.end AS ts FROM cpu GROUP BY host, window(ts, '5 minutes')"},
)
CPU = frozenset({"cpu"})


def test_filter_is_stateless() -> None:
    shape = infer_shape("SELECT host, ts FROM cpu WHERE cpu > 3", TABLES)
    assert shape == Shape(streams=CPU)
    assert shape.is_stateless


@pytest.mark.parametrize(
    ("time", "lag"),
    [
        ("window.end", -1),
        ("window_time(window)", 0),
        ("window.start", 5 * MINUTE - 1),
        ("max(ts)", 5 * MINUTE - 1),
    ],
)
def test_window_row_is_complete_when_the_window_closes(time: str, lag: int) -> None:
    shape = infer_shape(f"SELECT {time} AS ts FROM cpu GROUP BY window(ts, '5 minutes')", TABLES)
    assert shape == Shape(streams=CPU, reach=5 * MINUTE, lag=lag, period=5 * MINUTE)


def test_windows_since_a_time_of_the_day_reach_back_to_it() -> None:
    window = "window(ts, since('07:00', 'Europe/Rome'), '15 minutes')"
    shape = infer_shape(f"SELECT window.end AS ts FROM cpu GROUP BY {window}", TABLES)
    reach = (25 * 60 + 15) * MINUTE
    assert shape == Shape(streams=CPU, reach=reach, lag=-1, period=15 * MINUTE)
    with pytest.raises(Unsupported, match=r"must be window\.end"):
        infer_shape(f"SELECT max(ts) AS ts FROM cpu GROUP BY {window}", TABLES)


def test_window_closes_when_the_watermark_passes_its_end() -> None:
    shape = Shape(period=10, offset=3)
    assert not shape.closes_window(3, 12)
    assert shape.closes_window(12, 13)
    assert shape.closes_window(None, 4)


def test_windows_over_derived_streams_add_up() -> None:
    shape = infer_shape(
        "SELECT host, window.end AS ts FROM load GROUP BY host, window(ts, '10 minutes')", TABLES
    )
    assert shape.reach == 15 * MINUTE
    assert shape.lag == -2


def test_join_of_streams_reaches_back_to_the_joined_rows() -> None:
    shape = infer_shape(
        "SELECT a.host, a.ts AS ts FROM cpu a JOIN ping b ON a.host = b.host "
        "AND b.at BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts + INTERVAL 1 MINUTE",
        TABLES,
    )
    assert shape.streams == {"cpu", "ping"}
    assert (shape.reach, shape.lag, shape.period) == (5 * MINUTE, MINUTE, SECOND)


def test_relations_are_recorded() -> None:
    shape = infer_shape("SELECT c.ts FROM cpu c LEFT JOIN hosts h ON c.host = h.host", TABLES)
    assert shape.relations == {"hosts"}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT host FROM hosts", "must read a stream"),
        ("SELECT host FROM cpu", "must select its event time AS ts"),
        ("SELECT upper(host) AS ts FROM cpu", "ts must be the time of the stream"),
        ("SELECT * FROM ping", "select the event time as ts: at AS ts"),
        ("SELECT ts FROM nothing", "unknown table 'nothing'"),
        ("SELECT x.ts, x.host FROM cpu AS x(ts, host)", "column names in a table alias"),
        ("SELECT x.ts, x.host FROM load AS x(host, ts)", "column names in a table alias"),
        (
            "SELECT c.ts FROM cpu c JOIN hosts AS h(site, host) ON c.host = h.host",
            "column names in a table alias",
        ),
        ("SELECT ts FROM cpu LIMIT 3", "LIMIT is not supported"),
        ("SELECT count(*) AS n FROM cpu", "requires GROUP BY window"),
        ("SELECT 3 AS ts FROM cpu GROUP BY window(ts, '1 minute')", "ts of a window must be"),
        (
            "SELECT ts FROM cpu UNION "
            "SELECT window.end AS ts FROM cpu GROUP BY window(ts, '1 day')",
            "same windows",
        ),
        (
            "SELECT a.cpu AS ts FROM cpu a JOIN ping b ON a.host = b.host",
            "must select one side's time",
        ),
        (
            "SELECT a.ts AS ts FROM cpu a JOIN ping b ON a.ts > b.at",
            "must bound the time between its rows",
        ),
        (
            "SELECT b.at AS ts FROM cpu a LEFT JOIN ping b "
            "ON a.ts BETWEEN b.at AND b.at + INTERVAL 1 SECOND",
            "must be a LEFT JOIN",
        ),
    ],
)
def test_unsupported_queries_are_rejected_with_a_reason(sql: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        infer_shape(sql, TABLES)
