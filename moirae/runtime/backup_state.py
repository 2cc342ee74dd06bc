"""How old the last backup of a workspace is, and whether one is overdue."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import sql
from moirae.config import BackupSettings, format_duration
from sql.workspace import BackupGateway, BackupRow

# A backup is overdue when the last one is older than so many intervals of the schedule.
_OVERDUE_INTERVALS = 2


@dataclass(frozen=True)
class BackupState:
    """`schedule`: None: no backups are scheduled; then `last` and `failure` are of any folder.

    `last`: the newest complete backup. `failure`: a later attempt that failed. `since`: the state of
    the last backup or, without one, the first attempt; None: there was none. `now`: the time by the
    clock of the database.
    """

    schedule: BackupSettings | None
    last: BackupRow | None
    failure: BackupRow | None
    since: datetime | None
    now: datetime

    @property
    def age(self) -> timedelta | None:
        """The age of the state of the last complete backup; None: there is none."""
        if self.last is None or self.last.taken_at is None:
            return None
        return self.now - self.last.taken_at

    @property
    def is_overdue(self) -> bool:
        """Whether backups are scheduled, and the last one is too old."""
        if self.schedule is None or self.since is None:
            return False
        return self.now - self.since > _OVERDUE_INTERVALS * self.schedule.every

    def describe(self) -> str:
        """What is wrong with the scheduled backups, or how old the last one is."""
        if self.last is None or self.last.taken_at is None:
            text = "no backup is complete"
        else:
            text = f"the last backup, {self.last.name}, is of {self.last.taken_at:%Y-%m-%d %H:%M}Z"
        if self.schedule is not None:
            text += f"; scheduled every {format_duration(self.schedule.every)}"
        if self.failure is not None:
            text += f"; the last attempt failed: {(self.failure.error or '').splitlines()[0]}"
        return text


def read_backup_state(connection: sql.Connection, schedule: BackupSettings | None) -> BackupState:
    """The state of the backups in the folder of the schedule; without one, in any folder."""
    records = BackupGateway(connection)
    folder = None if schedule is None else schedule.to
    last = records.get_last(folder)
    since = records.get_first_start(folder)
    if last is not None:
        since = last.taken_at
    return BackupState(
        schedule=schedule,
        last=last,
        failure=records.get_last_failure(folder),
        since=since,
        now=records.get_now(),
    )
