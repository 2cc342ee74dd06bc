"""Rows of revisions as tables."""

import math
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import Mock

from moirae.evaluation.revision_rows import RevisionRows, make_table


def test_json_values_get_the_types_of_their_columns() -> None:
    columns = {"ts": "timestamp", "mean": "double", "day": "date", "n": "bigint", "host": "string"}
    records = [
        {"ts": datetime(2026, 1, 1, tzinfo=UTC), "mean": "NaN", "day": "2026-01-02", "n": 1},
        {"ts": "2026-01-01T00:00:01.500000Z", "mean": 2, "host": "a", "other": 1},
    ]
    first, second = make_table(columns, records).to_pylist()
    assert math.isnan(first.pop("mean"))
    assert first == {
        "ts": datetime(2026, 1, 1, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "n": 1,
        "host": None,
    }
    assert second == {
        "ts": datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        "mean": 2.0,
        "day": None,
        "n": None,
        "host": "a",
    }


def test_nothing_is_read_without_streams() -> None:
    connection = Mock()
    rows = RevisionRows(connection, Path())
    assert rows.refresh() == frozenset()
    assert rows.watermarks == {}
    connection.execute.assert_not_called()
