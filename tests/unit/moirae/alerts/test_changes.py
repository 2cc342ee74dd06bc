"""The log of changes: positions as text, and which changes are reported."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from moirae.alerts import format_position, parse_position, select_last
from sql.reports import ChangePosition, ChangeRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_change(number: int, kind: str, key: int) -> ChangeRow:
    return ChangeRow(1, number, kind, UUID(int=key), None, NOW, None, None)


def test_position_is_read_from_its_text() -> None:
    position = ChangePosition(17, 3)
    assert parse_position(format_position(position)) == position


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "a-1", "1-2-3", "٣-1", f"{1 << 63}-1"])
def test_changes_after_an_invalid_position_are_not_stored(text: str) -> None:
    assert parse_position(text) < ChangePosition(0, 0)


def test_alert_is_reported_once_and_each_revision() -> None:
    changes = [
        make_change(1, "alert", 1),
        make_change(2, "revision", 2),
        make_change(3, "alert", 1),
        make_change(4, "revision", 2),
    ]
    assert [change.id for change, is_reported in select_last(changes) if is_reported] == [2, 3, 4]
