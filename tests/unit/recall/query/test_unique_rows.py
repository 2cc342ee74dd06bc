import pytest

from recall.query.unique_rows import unique_columns

KEYS = {"cpu": frozenset({"host", "at"})}
DERIVED = {
    "load": "SELECT host, window.end AS ts, avg(v) AS v FROM cpu GROUP BY host, window(at, '1 minute')"
}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM cpu WHERE v > 1", {"host", "at"}),
        ("SELECT host AS h, at AS ts, v FROM cpu", {"h", "ts"}),
        ("SELECT at AS ts FROM cpu", None),
        ("SELECT upper(host) AS host, at AS ts FROM cpu", None),
        ("SELECT host, ts FROM (SELECT host, at AS ts FROM cpu)", {"host", "ts"}),
        ("SELECT host AS node, ts FROM load l WHERE l.v > 1", {"node", "ts"}),
        ("SELECT window.start AS ts, count(*) AS n FROM x GROUP BY window(ts, '1 minute')", {"ts"}),
        ("SELECT max(ts) AS ts, host FROM x GROUP BY host, window(ts, '1 minute')", None),
        ("SELECT window.end AS ts FROM x GROUP BY host, window(ts, '1 minute')", None),
        ("SELECT ts, host FROM other", None),
        ("SELECT host, at AS ts FROM cpu JOIN x ON x.host = cpu.host", None),
        ("SELECT host, at AS ts FROM cpu UNION ALL SELECT host, at FROM cpu", None),
        ("WITH c AS (SELECT * FROM cpu) SELECT * FROM c", None),
    ],
)
def test_columns_that_tell_rows_apart(sql: str, expected: set[str] | None) -> None:
    assert unique_columns(sql, KEYS, DERIVED) == expected
