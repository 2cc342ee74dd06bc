"""Backups that the workspace has started."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class BackupRow:
    """A backup. `name`: None: it is not complete. `taken_at`: the time of its state; None: not known.

    `finished_at`: None: it is not complete. `rows`: of streams. `bytes`, `new_bytes`: of all files,
    and of those copied. `error`: why it failed; None: it did not.
    """

    id: int
    name: str | None
    destination: str
    started_at: datetime
    taken_at: datetime | None
    finished_at: datetime | None
    rows: int | None
    bytes: int | None
    new_bytes: int | None
    error: str | None


class BackupGateway(Gateway):
    """Backups that the workspace has started."""

    queries = "backups"

    def start(self, destination: str) -> int:
        """Record that a backup starts; return the id of its record."""
        record: int = self._value("start", destination=destination)
        return record

    def finish(
        self,
        record: int,
        *,
        name: str,
        taken_at: datetime,
        rows: int,
        bytes: int,
        new_bytes: int,
    ) -> None:
        """Record that a backup is complete."""
        self._execute(
            "finish",
            id=record,
            name=name,
            taken_at=taken_at,
            rows=rows,
            bytes=bytes,
            new_bytes=new_bytes,
        )

    def fail(self, record: int, error: str) -> None:
        """Record why a backup ended."""
        self._execute("fail", id=record, error=replace_nul(error))

    def get_last(self, destination: str | None) -> BackupRow | None:
        """The newest complete backup in a folder; None: in any. None: there is none."""
        return self._record(BackupRow, "get_last", destination=destination)

    def get_last_failure(self, destination: str | None) -> BackupRow | None:
        """The newest failed backup in a folder, if none that was started later is complete."""
        return self._record(BackupRow, "get_last_failure", destination=destination)

    def get_first_start(self, destination: str | None) -> datetime | None:
        """When the first backup in a folder was started; None: none was."""
        started_at: datetime | None = self._value("get_first_start", destination=destination)
        return started_at

    def delete_before(self, age: timedelta) -> None:
        """Forget backups of that age, except the newest complete one."""
        self._execute("delete_before", age=age)

    def get_now(self) -> datetime:
        """The time by the clock of the database."""
        now: datetime = self._value("get_now")
        return now
