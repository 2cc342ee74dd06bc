"""Roles of processes: locks, epochs, heartbeats, metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul

_ENDED_BY_ERASURE = "^(live|notify|backup|recall( [0-9]+)?)$"  # roles


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """The last process of a role.

    `beat_at`: its last heartbeat. `first_commit_seconds`: from its start to its first commit; None
    until then, and for other roles than `live`. `error`, `failed_at`: why and when the last process
    of the role failed; None if none has since one started. `ingest`: of the live process, the last
    batch and its engine; None before the first one. `alive`: it has not ended, and its last
    heartbeat is at most 15 seconds old. `machine`: its host and home; "": of an earlier version.
    """

    role: str
    epoch: int
    pid: int
    machine: str
    started_at: datetime
    beat_at: datetime
    state: str
    first_commit_seconds: float | None
    error: str | None
    failed_at: datetime | None
    ingest: Mapping[str, Any] | None
    alive: bool


@dataclass(frozen=True, slots=True)
class HolderRow:
    """The last process of a role.

    `renewals`: how often it has renewed its lease; None: it has no lease.
    """

    epoch: int
    pid: int
    machine: str
    renewals: int | None


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A process that waits for a role, since `started_at`."""

    role: str
    machine: str
    pid: int
    started_at: datetime


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

    def unlock(self, role: str) -> None:
        """Release the lock of a role, which this connection has."""
        self._execute("unlock", role=role)

    def start(self, role: str, pid: int, machine: str = "") -> int:
        """Record a process in place of the previous one of its role; return its epoch."""
        return int(self._value("start", role=role, pid=pid, machine=machine))

    def renew(self, role: str, epoch: int) -> float | None:
        """Renew the lease of a role. Returns the clock of the database, in Unix seconds.

        None: another process has the role.
        """
        clock: float | None = self._value("renew", role=role, epoch=epoch)
        return clock

    def get_holder(self, role: str) -> HolderRow | None:
        """The last process of a role and its lease; None if there was none."""
        return self._record(HolderRow, "get_holder", role=role)

    def end_holder(self, role: str) -> None:
        """End the session that has the lock of a role: the lock is free then."""
        self._execute("end_holder", role=role)

    def put_waiting(self, role: str, machine: str, pid: int) -> None:
        """Record that a process waits for a role; repeated as a sign of life."""
        self._execute("put_waiting", role=role, machine=machine, pid=pid)

    def delete_waiting(self, role: str, machine: str, pid: int) -> None:
        """Record that a process waits no longer."""
        self._execute("delete_waiting", role=role, machine=machine, pid=pid)

    def list_waiting(self) -> list[WaitingRow]:
        """The processes that wait for a role and have shown a sign of life within 15 seconds."""
        return self._records(WaitingRow, "list_waiting")

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
    ) -> bool:
        """Record time and state of a process; returns whether it is still the one of its role.

        The first `first_commit_seconds` and the last `ingest` are kept.
        """
        recorded = self._value(
            "heartbeat",
            role=role,
            epoch=epoch,
            state=state,
            first_commit_seconds=first_commit_seconds,
            ingest=None if ingest is None else Jsonb(ingest),
        )
        return recorded is not None

    def is_erasing(self) -> bool:
        """Whether an erasure runs."""
        return bool(self._value("is_erasing"))

    def end_all(self) -> None:
        """Have all processes lose their roles, but for the server and `up`."""
        self._execute("end_all", roles=_ENDED_BY_ERASURE)

    def list_held(self) -> list[str]:
        """The roles that `end_all` ends, of those whose lock a session still has."""
        return self._column("list_held", roles=_ENDED_BY_ERASURE)

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
