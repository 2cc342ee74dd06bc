"""Roles: at most one process of a workspace acts as `live`, `server` or `up` at a time.

A process holds its role by an advisory lock of its connection. An epoch number fences a process
that lost the role: it checks the epoch before each write that cannot be undone. A process of
another machine may wait for the role: it takes over when the lock is free, or when the holder has
not renewed its lease (`moirae.runtime.leases`).
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

import sql
from archiver.errors import ArchiverError
from moirae.errors import MoiraeError, RoleLost, RoleTaken, Stopped, Unreachable, first_line
from moirae.runtime.leases import OBSERVATION_INTERVAL, LeaseWatch
from moirae.runtime.metrics import snapshot_metrics
from sql.processes import HolderRow, ProcessGateway

_LOG = structlog.get_logger()
_LOCK_POLL = 0.2  # seconds
# Seconds from an outage of the database until who waits for a role tries again: longer than its
# holder, which has lost its lock as well, takes to reconnect.
_RECONNECT_PAUSE = 5.0
_MAX_ERROR_LENGTH = 2000  # characters of a stored error


@dataclass(frozen=True)
class Standby:
    """How a process waits for a role that another machine holds.

    `machine`: the name of this one; `stop`: set to end the wait. `waits`: False: it does not.
    """

    machine: str
    stop: threading.Event
    waits: bool = True


class Role:
    """A role of this process, held as long as its connection lives."""

    def __init__(
        self,
        connection: sql.Connection,
        role: str,
        timeout: float,
        standby: Standby | None = None,
    ) -> None:
        """`timeout`: seconds to wait for another process to release the role.

        With `standby`, it waits for one of another machine as long as that one lives. Raises
        `RoleTaken`, and `Stopped` if a stop is requested meanwhile.
        """
        self._processes = ProcessGateway(connection)
        self._role = role
        self.metrics: CollectorRegistry | None = None
        """The metrics of the process, stored with the next heartbeat; None: it has none."""
        self._stored_metrics: list[dict[str, Any]] | None = None
        wait = _RoleWait(self._processes, role, timeout, standby)
        wait.acquire_lock()
        machine = "" if standby is None else standby.machine
        self.epoch = self._processes.start(role, os.getpid(), machine)
        while self._processes.is_erasing():  # it has begun meanwhile, and may not know this process
            self._processes.heartbeat(role, self.epoch, state="ended", first_commit_seconds=None)
            self._processes.unlock(role)
            wait.acquire_lock()
            self.epoch = self._processes.start(role, os.getpid(), machine)

    @classmethod
    def acquire_numbered(
        cls, connection: sql.Connection, role: str, max_processes: int, machine: str = ""
    ) -> "Role":
        """Acquire the first free one of `recall`, `recall 2`, `recall 3` and so on.

        `machine`: the name of this one. Raises `RoleTaken` where all `max_processes` are taken.
        """
        standby = Standby(machine, threading.Event(), waits=False)
        for name in _number_roles(role, max_processes):
            with suppress(RoleTaken):
                return cls(connection, name, 0.0, standby)
        raise RoleTaken(
            f"{max_processes} {role} processes of this workspace are running, the maximum"
        )

    @property
    def name(self) -> str:
        """The role, such as `recall 2`."""
        return self._role

    def fence(self) -> None:
        """Raise `RoleLost` where another process has the role.

        Call it before each write that cannot be undone.
        """
        if self._processes.get_epoch(self._role) != self.epoch:
            raise RoleLost(self._describe_loss())

    def _describe_loss(self) -> str:
        return f"another {self._role} process has taken over the role, or an erasure ends it"

    def reattach(self, connection: sql.Connection) -> None:
        """Hold the role by another connection.

        Raises `RoleLost`, or `RoleTaken` where the old connection still holds the lock.
        """
        self._processes = ProcessGateway(connection)
        self.fence()
        _RoleWait(self._processes, self._role, 0.0, None).acquire_lock()
        self.fence()

    def heartbeat(
        self,
        state: str,
        first_commit_seconds: float | None = None,
        ingest: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the time and the state of the process.

        `first_commit_seconds`: from the start to the first commit, stored once; None: unknown.
        `ingest`: the last batch and its engine. Raises `RoleLost` as `fence` does.
        """
        is_current = self._processes.heartbeat(
            self._role,
            self.epoch,
            state=state,
            first_commit_seconds=first_commit_seconds,
            ingest=ingest,
        )
        if not is_current:
            raise RoleLost(self._describe_loss())
        if self.metrics is None:
            return
        snapshot = snapshot_metrics(self.metrics)
        if snapshot != self._stored_metrics:  # an idle process writes nothing
            self._processes.put_metrics(self._role, self.epoch, snapshot)
            self._stored_metrics = snapshot

    def declare(self, declarations: Mapping[str, str]) -> None:
        """Store what the process has read of the workspace file."""
        self._processes.put_declarations(self._role, self.epoch, declarations)

    def fail(self, error: str) -> None:
        """Store the error by which the process ends; `moirae status` shows it."""
        self._processes.fail(self._role, self.epoch, error[:_MAX_ERROR_LENGTH])


def _number_roles(role: str, max_processes: int) -> Iterator[str]:
    yield role
    for number in range(2, max_processes + 1):
        yield f"{role} {number}"


class _RoleWait:
    """Takes the lock of a role, and waits for its holder as far as it may."""

    def __init__(
        self, processes: ProcessGateway, role: str, timeout: float, standby: Standby | None
    ) -> None:
        self._processes = processes
        self._role = role
        self._deadline = time.monotonic() + timeout
        self._standby = standby
        self._lease = LeaseWatch()
        self._look_at = 0.0  # of the next look at the lease, by the monotonic clock
        self._is_waiting = False

    def acquire_lock(self) -> None:
        """Raises `RoleTaken`, or `Stopped`."""
        try:
            self._await_erasure()
            while not self._processes.try_lock(self._role):
                if time.monotonic() >= self._look_at:
                    self._look_at = time.monotonic() + OBSERVATION_INTERVAL
                    self._look()
                time.sleep(_LOCK_POLL)
                self._await_erasure()
        finally:
            if self._is_waiting and self._standby is not None:
                with suppress(sql.DatabaseError):
                    self._processes.delete_waiting(self._role, self._standby.machine, os.getpid())

    def _await_erasure(self) -> None:
        """Nothing is read into memory that is being erased."""
        started_at = time.monotonic()
        while self._processes.is_erasing():
            time.sleep(_LOCK_POLL)
            if self._standby is not None and self._standby.stop.is_set():
                raise Stopped
        self._deadline += time.monotonic() - started_at

    def _look(self) -> None:
        """Look at the holder: has it lost its lease, or is it to be waited for?"""
        holder = self._processes.get_holder(self._role)
        machine = _other_machine(holder, self._standby)
        if holder is not None and self._lease.has_expired(holder.epoch, holder.renewals):
            _LOG.warning(
                "lease expired, its session is ended",
                action="lease_expired",
                process=self._role,
                machine=holder.machine,
            )
            self._processes.end_holder(self._role)
            self._lease.reset()
        elif machine is not None and self._standby is not None and self._standby.waits:
            self._record_wait(machine, self._standby)
        elif time.monotonic() > self._deadline:
            command = "`moirae up`" if self._role == "up" else f"the {self._role} process"
            where = "in this workspace" if machine is None else f"on {machine}"
            raise RoleTaken(f"{command} is already running {where}: stop it first")

    def _record_wait(self, machine: str, standby: Standby) -> None:
        if standby.stop.is_set():
            raise Stopped
        if not self._is_waiting:
            _LOG.info(
                "waiting: another machine holds the role",
                action="role_awaited",
                process=self._role,
                machine=machine,
            )
        self._is_waiting = True
        self._processes.put_waiting(self._role, standby.machine, os.getpid())


def _other_machine(holder: HolderRow | None, standby: Standby | None) -> str | None:
    """The machine of a holder if it is another one than this; None: it is not, or is not known."""
    if holder is None or standby is None or holder.machine in ("", standby.machine):
        return None
    return holder.machine


class ReconnectingRole:
    """The role of a process that survives an outage of PostgreSQL.

    The next heartbeat after the outage reconnects and acquires the role again.
    """

    def __init__(
        self,
        connect: Callable[[], sql.Connection],
        role: str,
        timeout: float,
        standby: Standby | None = None,
    ) -> None:
        """`connect` opens a connection, at first and after each outage.

        `timeout`, `standby`: as of `Role`. An outage while it waits is waited for, too.
        """
        self._connect = connect
        self._role_name = role
        self.connection = connect()
        self._role = self._wait_for_role(timeout, standby)
        self._is_disconnected = False

    def _wait_for_role(self, timeout: float, standby: Standby | None) -> Role:
        while True:
            try:
                return Role(self.connection, self._role_name, timeout, standby)
            except sql.OperationalError:
                if standby is None:
                    raise
            self.connection.close()
            while self.connection.closed:
                if standby.stop.wait(_RECONNECT_PAUSE):
                    raise Stopped
                with suppress(sql.DatabaseError, Unreachable):
                    self.connection = self._connect()

    @classmethod
    def acquire_numbered(
        cls,
        connect: Callable[[], sql.Connection],
        role: str,
        timeout: float,
        standby: Standby,
        max_processes: int,
    ) -> "ReconnectingRole":
        """Acquire `server`, `server 2` and so on: that of this machine before, or the first free one.

        `timeout`: seconds to wait for the predecessor on this machine. Raises `RoleTaken`.
        """
        names = list(_number_roles(role, max_processes))
        with connect() as connection:
            rows = ProcessGateway(connection).list_all()
        own = [row.role for row in rows if row.role in names and row.machine == standby.machine]
        standby = replace(standby, waits=False)
        for name in dict.fromkeys([*own, *names]):
            with suppress(RoleTaken):
                return cls(connect, name, timeout if name in own else 0.0, standby)
        raise RoleTaken(
            f"{max_processes} {role} processes of this workspace are running, the maximum"
        )

    @property
    def name(self) -> str:
        """The name of the role."""
        return self._role_name

    @property
    def epoch(self) -> int:
        """The epoch of the role: see `Role`."""
        return self._role.epoch

    def heartbeat(self, state: str) -> None:
        """Store the state, reconnecting if needed; an outage is logged once. Raises `RoleLost`."""
        try:
            if self.connection.closed:
                self._reconnect()
            self._role.heartbeat(state)
            self._is_disconnected = False
        except RoleLost:
            raise
        except (sql.DatabaseError, MoiraeError) as error:
            if not self._is_disconnected:
                _LOG.warning(
                    "database unreachable, retrying",
                    action="database_unreachable",
                    process=self._role_name,
                    error=str(error),
                )
            self._is_disconnected = True

    def mark_ended(self) -> None:
        """Store that the process ended in order; skipped while the database is unreachable."""
        with suppress(sql.DatabaseError, RoleLost):
            self._role.heartbeat("ended")

    def fail(self, error: str) -> None:
        """Store the error by which the process ends. Raises `sql.DatabaseError`."""
        self._role.fail(error)

    def _reconnect(self) -> None:
        connection = self._connect()
        try:
            self._role.reattach(connection)
        except BaseException:
            connection.close()
            raise
        self.connection = connection
        _LOG.info(
            "database connection restored", action="database_reconnected", process=self._role_name
        )


@contextmanager
def record_failure(role: Role | ReconnectingRole) -> Iterator[None]:
    """Store the error by which the block ends with the role, and re-raise it."""
    try:
        yield
    except Exception as error:
        with suppress(sql.DatabaseError):
            role.fail(describe_error(error))
        raise


def describe_error(error: BaseException) -> str:
    """The error by which a process ends, for the status: no trace."""
    if isinstance(error, MoiraeError | ArchiverError):
        return str(error)
    message = first_line(error)
    name = type(error).__name__
    return message if message == name else f"{name}: {message}"


def list_processes(connection: sql.Connection) -> list[dict[str, Any]]:
    """The last process of each role as the status shows it: the fields of `ProcessRow`."""
    return [asdict(row) for row in ProcessGateway(connection).list_all()]


def list_waiting_processes(connection: sql.Connection) -> list[dict[str, Any]]:
    """The processes that wait for a role: the fields of `WaitingRow`."""
    return [asdict(row) for row in ProcessGateway(connection).list_waiting()]
