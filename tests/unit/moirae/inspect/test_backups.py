"""Backups in the problems of the status."""

from typing import Any

from moirae.inspect.backups import find_backup_problem, summarize_backups


def _status(**parts: Any) -> dict[str, Any]:
    backup = {"to": "/b", "last": {}, "failure": None, "is_overdue": False, "description": "text"}
    return {"backup": {**backup, **parts}}


def test_overdue_and_failed_backups_are_problems() -> None:
    assert find_backup_problem(_status()) is None
    assert find_backup_problem(_status(is_overdue=True)) == "backup overdue: text"
    failed = _status(failure={"error": "no space"})
    assert find_backup_problem(failed) == "backup failed: text; it is tried again"
    # One that somebody made by hand.
    assert find_backup_problem(_status(to=None, failure={"error": "no space"})) is None


def test_backups_are_summarized_where_there_are_some() -> None:
    assert summarize_backups(_status()) == "backup: text"
    assert summarize_backups(_status(to=None)) == "backup: text"
    assert summarize_backups(_status(to=None, last=None)) is None
