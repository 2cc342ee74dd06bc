"""Roles of processes: locks, epochs, heartbeats, metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """The last process of a role.

    `beat_at`: its last heartbeat. `first_commit_seconds`: from its start to its first commit; None
    until then, and for other roles than `live`. `error`, `failed_at`: why and when the last process
    of the role failed; None if none has since one started. `ingest`: of the live process, the last
    batch and its engine; None before the first one. `alive`: it has not ended, and its last
    heartbeat is at most 15 seconds old.
    """

    role: str
    epoch: int
    pid: int
    started_at: datetime
    beat_at: datetime
    state: str
    first_commit_seconds: float | None
    error: str | None
    failed_at: datetime | None
    ingest: Mapping[str, Any] | None
    alive: bool


@dataclass(frozen=True, slots=True)
class DeclarationsRow:
    """What the live process has read of the workspace file after it started: a hash by name."""

    started_at: datetime
    declarations: Mapping[str, str]


class ProcessGateway(Gateway):
    """The last process of each role."""

    queries = "processes"

    def try_lock(self, role: str) -> bool:
        """Take the lock of a role for this connection. Returns False if another has it."""
        return bool(self._value("try_lock", role=role))

    def start(self, role: str, pid: int) -> int:
        """Record a process in place of the previous one of its role; return its epoch."""
        return int(self._value("start", role=role, pid=pid))

    def get_epoch(self, role: str) -> int | None:
        """The epoch of the last process of a role; None if there was none."""
        epoch: int | None = self._value("get_epoch", role=role)
        return epoch

    def heartbeat(
        self,
        role: str,
        epoch: int,
        *,
        state: str,
        first_commit_seconds: float | None,
        ingest: Mapping[str, Any] | None = None,
    ) -> None:
        """Record time and state of a process.

        The first `first_commit_seconds` and the last `ingest` are kept.
        """
        self._execute(
            "heartbeat",
            role=role,
            epoch=epoch,
            state=state,
            first_commit_seconds=first_commit_seconds,
            ingest=None if ingest is None else Jsonb(ingest),
        )

    def fail(self, role: str, epoch: int, error: str) -> None:
        """Record the error by which a process ends."""
        self._execute("fail", role=role, epoch=epoch, error=replace_nul(error))

    def put_declarations(self, role: str, epoch: int, declarations: Mapping[str, str]) -> None:
        """Record what a process has read of the workspace file."""
        self._execute("put_declarations", role=role, epoch=epoch, declarations=Jsonb(declarations))

    def get_live_declarations(self) -> DeclarationsRow | None:
        """What the live process has read of the workspace file; None if none runs."""
        rows = self._records(DeclarationsRow, "get_live_declarations")
        return rows[0] if rows else None

    def list_all(self) -> list[ProcessRow]:
        """The last process of each role, in order of the roles."""
        return self._records(ProcessRow, "list_all")

    def put_metrics(self, role: str, epoch: int, metrics: Sequence[Any]) -> None:
        """Store the metrics of a process, unless another has its role."""
        self._execute("put_metrics", role=role, epoch=epoch, metrics=Jsonb(metrics))

    def list_metrics(self) -> dict[str, Sequence[Any]]:
        """The metrics that the last process of each role has stored, by role."""
        return self._pairs("list_metrics")

    def live_heartbeat_age(self) -> float | None:
        """Seconds since the last heartbeat of the live process; None if none runs."""
        age: float | None = self._value("live_heartbeat_age")
        return age
