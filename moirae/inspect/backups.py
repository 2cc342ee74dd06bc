"""Backups in the status of a workspace."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sql
from moirae.config import BackupSettings
from moirae.inspect.report import BackupStatus
from moirae.runtime import read_backup_state


def describe_backups(connection: sql.Connection, schedule: BackupSettings | None) -> BackupStatus:
    """The last backup, its age, and whether one is overdue."""
    state = read_backup_state(connection, schedule)
    return BackupStatus(
        to=None if schedule is None else schedule.to,
        every_seconds=None if schedule is None else schedule.every.total_seconds(),
        last=None if state.last is None else asdict(state.last),
        age_seconds=None if state.age is None else state.age.total_seconds(),
        failure=None if state.failure is None else asdict(state.failure),
        is_overdue=state.is_overdue,
        description=state.describe(),
    )


def find_backup_problem(status: Mapping[str, Any]) -> str | None:
    """The problem of scheduled backups: one is overdue, or the last attempt failed."""
    backup = status["backup"]
    if backup["is_overdue"]:
        return f"backup overdue: {backup['description']}"
    if backup["to"] is not None and backup["failure"] is not None:
        return f"backup failed: {backup['description']}; it is tried again"
    return None


def summarize_backups(status: Mapping[str, Any]) -> str | None:
    """A line about the backups; None: there are none, and none are scheduled."""
    backup = status["backup"]
    if backup["to"] is None and backup["last"] is None and backup["failure"] is None:
        return None
    return f"backup: {backup['description']}"
