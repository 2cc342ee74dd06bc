"""Processes that ended without being asked to."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ProcessExitRow:
    """The end of a process.

    `epoch` None: it ended before it took its role. `exit_code`, `signal`: None where no `moirae up`
    saw the end. `error`: by which the process ended, as far as it could store it.
    """

    role: str
    epoch: int | None
    pid: int
    started_at: datetime
    ended_at: datetime
    exit_code: int | None
    signal: int | None
    error: str | None


class ProcessExitGateway(Gateway):
    """The ends of processes. A process that takes a role stores the end of its predecessor, too."""

    queries = "process_exits"

    def record(
        self,
        role: str,
        pid: int,
        *,
        age: timedelta,
        ended_at: datetime,
        exit_code: int | None,
        signal: int | None,
    ) -> None:
        """Store the end of a process that was started `age` before; delete old ones.

        `role`: without a number; that of a process that took a numbered role is found by its ID.
        """
        self._execute(
            "record",
            role=role,
            pid=pid,
            age=age,
            ended_at=ended_at,
            exit_code=exit_code,
            signal=signal,
        )
        self._execute("delete_old")

    def fail(self, pid: int, error: str) -> None:
        """Store the error by which the process of an ID ends, whatever its role."""
        self._execute("fail", pid=pid, error=replace_nul(error))

    def mark_stopped(self, pids: Collection[int]) -> None:
        """Record that processes have ended as requested, which could not do so themselves."""
        self._execute("mark_stopped", pids=list(pids))

    def list_recent(self, since: datetime) -> list[ProcessExitRow]:
        """The ends of processes since a time, newest first."""
        return self._records(ProcessExitRow, "list_recent", since=since)
