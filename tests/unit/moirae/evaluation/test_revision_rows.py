"""Rows of revisions as tables."""

import math
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from moirae.evaluation import revision_rows
from moirae.evaluation.revision_rows import RevisionRows, make_table
from moirae.rules import RevisionStream


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


@pytest.mark.parametrize(
    ("settled", "watermark"), [({}, 9), ({"g/a": 5}, 5), ({"g/a": None}, None)]
)
def test_alerts_of_rules_that_do_not_run_are_complete(
    monkeypatch: pytest.MonkeyPatch, settled: dict[str, int | None], watermark: int | None
) -> None:
    active = [Mock(rule=rule, settled_to=time) for rule, time in settled.items()]
    deployments = Mock(list_active=lambda: active)
    monkeypatch.setattr(revision_rows, "DeploymentGateway", lambda _: deployments)
    monkeypatch.setattr(revision_rows, "AlertGateway", Mock())
    rows = RevisionRows(Mock(), Path(), lambda: 9)
    stream = RevisionStream("alerts", "", "", {"ts": "timestamp"}, rules=("g/a", "g/disabled"))
    rows.set_streams([stream])
    assert rows.refresh_alerts() == {stream.table}
    assert rows.watermarks == {stream.table: watermark}
