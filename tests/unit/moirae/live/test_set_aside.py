"""When what breaks its reader is tried again, set aside, and read again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from moirae.live.set_aside import SetAside, add_failure, may_try
from sql.archive import SetAsideRow, Subject

FILE = Subject("file", "landing/m/a.jsonl", "m")
START = datetime(2026, 1, 1, tzinfo=UTC)


class StoredRows:
    """The gateway, over a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[Subject, SetAsideRow] = {}

    def list_all(self) -> list[SetAsideRow]:
        return list(self.rows.values())

    def put(self, row: SetAsideRow) -> None:
        self.rows[row.subject] = row

    def delete(self, subject: Subject) -> None:
        self.rows.pop(subject, None)


def _fail(seconds: list[float], fingerprint: str = "1") -> SetAsideRow:
    """The row after failures at some seconds."""
    row = None
    for second in seconds:
        row = add_failure(row, FILE, "broken", fingerprint, START + timedelta(seconds=second))
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("seconds", "is_set_aside"),
    [
        ([0], False),
        ([0, 30], False),
        ([0, 61], False),
        ([0, 1, 2, 3, 4], False),
        ([0, 30, 60], True),
        ([0, 1, 2, 61], True),
    ],
)
def test_subject_is_set_aside_after_three_tries_over_a_minute(
    seconds: list[float], is_set_aside: bool
) -> None:
    row = _fail(seconds)
    assert (row.set_aside_at is not None) is is_set_aside
    assert row.tries == len(seconds)


def test_failing_subject_is_tried_at_intervals() -> None:
    row = _fail([0])
    assert not may_try(row, "1", START + timedelta(seconds=29))
    assert may_try(row, "1", START + timedelta(seconds=30))


def test_clock_that_was_set_back_does_not_delay_a_try() -> None:
    assert may_try(_fail([0]), "1", START - timedelta(hours=1))


def test_set_aside_subject_is_tried_when_it_changes_or_on_request() -> None:
    row = _fail([0, 30, 60])
    later = START + timedelta(days=1)
    assert not may_try(row, "1", later)
    assert may_try(row, "2", later)
    assert may_try(replace(row, retry_requested=True), "1", later)


def test_changed_subject_begins_anew() -> None:
    row = add_failure(_fail([0, 30, 60]), FILE, "broken", "2", START + timedelta(seconds=90))
    assert row.tries == 1
    assert row.set_aside_at is None


def test_failed_request_leaves_the_subject_set_aside_with_the_new_reason() -> None:
    row = replace(_fail([0, 30, 60]), retry_requested=True)
    again = add_failure(row, FILE, "still broken", "1", START + timedelta(hours=1))
    assert again.set_aside_at == row.set_aside_at
    assert again.reason == "still broken"
    assert not again.retry_requested


def test_failures_outlive_the_process() -> None:
    stored = StoredRows()
    for second in (0, 30, 60):
        process = SetAside(stored)  # type: ignore[arg-type]
        process.record_failure(FILE, "broken", "1", START + timedelta(seconds=second))
    process = SetAside(stored)  # type: ignore[arg-type]
    assert process.is_set_aside(FILE, "1")
    assert not process.is_set_aside(FILE, "2")
    row = process.record_success(FILE)
    assert row is not None
    assert row.tries == 3
    assert not process.has_failed(FILE)
    assert stored.rows == {}


def test_request_of_another_process_is_seen_within_a_second() -> None:
    stored = StoredRows()
    seconds = 0.0
    process = SetAside(stored, clock=lambda: seconds)  # type: ignore[arg-type]
    for second in (0, 30, 60):
        process.record_failure(FILE, "broken", "1", START + timedelta(seconds=second))
    now = START + timedelta(minutes=5)
    assert not process.may_try(FILE, "1", now)
    stored.rows[FILE] = replace(stored.rows[FILE], retry_requested=True)
    seconds = 1.0
    assert process.may_try(FILE, "1", now)
