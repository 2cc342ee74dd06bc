"""Which columns of tables the outputs of a query are."""

import pytest

from recall.query.plain_columns import find_plain_columns

COLUMNS = {
    "a": {"ts": "timestamp", "host": "string", "alias": "string", "v": "double"},
    "b": {"ts": "timestamp", "src": "string", "v": "double"},
}
WINDOWED = "SELECT window.end AS ts, host, avg(v) AS m FROM a GROUP BY window(ts, '1 minute'), host"


@pytest.mark.parametrize(
    ("sql", "names", "branches"),
    [
        ("SELECT * FROM a WHERE v > 1", ["host"], [{"host": ("a", "host")}]),
        ("SELECT ts, (HOST) AS machine FROM a", ["machine"], [{"machine": ("a", "host")}]),
        ("SELECT ts, upper(host) AS host FROM a", ["host"], [{"host": None}]),
        ("SELECT ts, 'x' AS host FROM a", ["host"], [{"host": None}]),
        (WINDOWED, ["host", "m"], [{"host": ("a", "host"), "m": None}]),
        (
            "SELECT ts, host FROM (SELECT ts, host FROM a UNION ALL SELECT ts, src FROM b)",
            ["host"],
            [{"host": ("a", "host")}, {"host": ("b", "src")}],
        ),
        (
            "SELECT x.ts, x.host, y.src FROM a x JOIN b y ON x.host = y.src",
            ["host", "src"],
            [{"host": ("a", "host"), "src": ("b", "src")}],
        ),
        ("WITH x AS (SELECT ts, host FROM a) SELECT * FROM x", ["host"], [{"host": ("a", "host")}]),
    ],
)
def test_plain_columns_are_followed_to_their_tables(
    sql: str, names: list[str], branches: list[object]
) -> None:
    assert find_plain_columns(sql, names, COLUMNS, {}) == branches


def test_derived_tables_are_followed() -> None:
    derived = {"loads": WINDOWED, "a": "SELECT ts, lower(host) AS host, alias FROM a"}
    (branch,) = find_plain_columns("SELECT ts, host FROM loads", ["host"], COLUMNS, derived)
    assert branch == {"host": None}
    (branch,) = find_plain_columns("SELECT ts, alias FROM a", ["alias"], COLUMNS, derived)
    assert branch == {"alias": ("a", "alias")}
