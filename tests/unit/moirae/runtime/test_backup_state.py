"""How old the last backup is, and when one is overdue."""

from datetime import UTC, datetime, timedelta

import pytest

from moirae.config import BackupSettings
from moirae.runtime.backup_state import BackupState
from sql.workspace import BackupRow

NOW = datetime(2026, 1, 10, tzinfo=UTC)
DAILY = BackupSettings(to="/backups")


def _row(age: timedelta, error: str | None = None) -> BackupRow:
    at = NOW - age
    finished = None if error else at
    return BackupRow(1, None if error else "b1", "/backups", at, finished, finished, 1, 1, 1, error)


@pytest.mark.parametrize(
    ("schedule", "age", "is_overdue"),
    [
        (DAILY, timedelta(days=1), False),
        (DAILY, timedelta(days=2), False),
        (DAILY, timedelta(days=2, seconds=1), True),
        (None, timedelta(days=20), False),
        (BackupSettings(to="/backups", every="1h"), timedelta(hours=3), True),
    ],
)
def test_backup_is_overdue_after_two_intervals(
    schedule: BackupSettings | None, age: timedelta, is_overdue: bool
) -> None:
    last = _row(age)
    state = BackupState(schedule, last, None, last.taken_at, NOW)
    assert (state.is_overdue, state.age) == (is_overdue, age)


def test_first_backup_is_overdue_when_attempts_fail_for_long() -> None:
    failure = _row(timedelta(hours=1), "no space\nmore")
    state = BackupState(DAILY, None, failure, NOW - timedelta(days=3), NOW)
    assert state.is_overdue
    assert state.age is None
    assert state.describe() == (
        "no backup is complete; scheduled every 1d; the last attempt failed: no space"
    )
    assert not BackupState(DAILY, None, None, None, NOW).is_overdue


def test_age_is_described() -> None:
    last = _row(timedelta(hours=5))
    state = BackupState(DAILY, last, None, last.taken_at, NOW)
    assert state.describe() == "the last backup, b1, is of 2026-01-09 19:00Z; scheduled every 1d"
