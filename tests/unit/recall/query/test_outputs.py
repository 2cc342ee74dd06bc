"""Which outputs of an event query are computed from aggregates."""

import pytest

from recall.query import Tables
from recall.query.outputs import find_outputs

LOAD = (
    "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu GROUP BY host, window(ts, '1 minute')"
)
TABLES = Tables({"cpu": "ts"}, frozenset({"hosts"}), {"load": LOAD})


@pytest.mark.parametrize(
    ("sql", "aggregated", "has_windows"),
    [
        ("SELECT host, ts, cpu FROM cpu", set(), False),
        (LOAD, {"cpu"}, True),
        ("SELECT host, ts, cpu FROM load WHERE cpu > 90", {"cpu"}, True),
        ("SELECT l.host AS node, l.ts, l.cpu + 1 AS more FROM load l", {"more"}, True),
        ("SELECT * FROM load", {"cpu"}, True),
        (
            "WITH x AS (SELECT ts, mean(cpu) AS m FROM load GROUP BY ts) SELECT * FROM x",
            {"m"},
            True,
        ),
        ("SELECT q.ts, h.site FROM (SELECT * FROM load) q JOIN hosts h ON true", set(), True),
        (f"SELECT host, ts, cpu FROM cpu UNION ALL {LOAD}", {"cpu"}, True),
        ("SELECT max(ts) AS ts FROM cpu GROUP BY window(ts, '1 minute')", {"ts"}, True),
    ],
)
def test_aggregates_are_followed_to_the_outputs(
    sql: str, aggregated: set[str], has_windows: bool
) -> None:
    outputs = find_outputs(sql, TABLES)
    assert outputs.aggregated == aggregated
    assert outputs.has_windows == has_windows
