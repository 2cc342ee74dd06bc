"""Which columns identify a row."""

import pytest

from recall.query.row_keys import row_key_columns


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT count(*) AS n FROM s", ()),
        ("SELECT s.host, avg(v) AS mean FROM s GROUP BY s.host", ("host",)),
        ("SELECT s.Host AS h, count(*) AS n FROM s GROUP BY s.host", ("h",)),
        ("SELECT s.host AS h, count(*) AS n FROM s GROUP BY 1", ("h",)),
        ("SELECT s.host AS h, count(*) AS n FROM s GROUP BY h", ("h",)),
        ("SELECT date(ts) AS day, host, max(v) FROM s GROUP BY host, date(ts)", ("host", "day")),
        ("SELECT count(*) AS n FROM s GROUP BY host", None),
        ("SELECT host, v FROM s", None),
        ("SELECT DISTINCT host FROM s", None),
        ("SELECT host FROM s UNION ALL SELECT host FROM t", None),
    ],
)
def test_groups_identify_rows(sql: str, columns: tuple[str, ...] | None) -> None:
    assert row_key_columns(sql) == columns
