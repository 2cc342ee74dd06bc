"""Roles: at most one process of a workspace acts as `live`, `server` or `up` at a time.

A process holds its role by an advisory lock of its connection. An epoch number fences a process
that lost the role: it checks the epoch before each write that cannot be undone.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

import sql
from archiver.errors import ArchiverError
from moirae.errors import MoiraeError, RoleLost, RoleTaken, first_line
from moirae.runtime.metrics import snapshot_metrics
from sql.processes import ProcessGateway

_LOG = structlog.get_logger()
_LOCK_POLL = 0.2  # seconds
_MAX_ERROR_LENGTH = 2000  # characters of a stored error


class Role:
    """A role of this process, held as long as its connection lives."""

    def __init__(self, connection: sql.Connection, role: str, timeout: float) -> None:
        """`timeout`: seconds to wait for another process to release the role.

        Raises `RoleTaken` where it does not.
        """
        self._processes = ProcessGateway(connection)
        self._role = role
        self.metrics: CollectorRegistry | None = None
        """The metrics of the process, stored with the next heartbeat; None: it has none."""
        self._stored_metrics: list[dict[str, Any]] | None = None
        self._acquire_lock(timeout)
        self.epoch = self._processes.start(role, os.getpid())

    def _acquire_lock(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._processes.try_lock(self._role):
            if time.monotonic() > deadline:
                command = "`moirae up`" if self._role == "up" else f"the {self._role} process"
                raise RoleTaken(f"{command} is already running in this workspace: stop it first")
            time.sleep(_LOCK_POLL)

    @classmethod
    def acquire_numbered(cls, connection: sql.Connection, role: str, max_processes: int) -> "Role":
        """Acquire the first free one of `recall`, `recall 2`, `recall 3` and so on.

        Raises `RoleTaken` where all `max_processes` are taken.
        """
        name = role
        for number in range(1, max_processes + 1):
            if number > 1:
                name = f"{role} {number}"
            with suppress(RoleTaken):
                return cls(connection, name, timeout=0.0)
        raise RoleTaken(
            f"{max_processes} {role} processes of this workspace are running, the maximum"
        )

    def fence(self) -> None:
        """Raise `RoleLost` where another process has the role.

        Call it before each write that cannot be undone.
        """
        if self._processes.get_epoch(self._role) != self.epoch:
            raise RoleLost(f"another {self._role} process has taken over the role")

    def reattach(self, connection: sql.Connection) -> None:
        """Hold the role by another connection.

        Raises `RoleLost`, or `RoleTaken` where the old connection still holds the lock.
        """
        self._processes = ProcessGateway(connection)
        self.fence()
        self._acquire_lock(0.0)
        self.fence()

    def heartbeat(
        self,
        state: str,
        first_commit_seconds: float | None = None,
        ingest: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the time and the state of the process.

        `first_commit_seconds`: from the start to the first commit, stored once; None: unknown.
        `ingest`: the last batch and its engine.
        """
        self._processes.heartbeat(
            self._role,
            self.epoch,
            state=state,
            first_commit_seconds=first_commit_seconds,
            ingest=ingest,
        )
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


class ReconnectingRole:
    """The role of a process that survives an outage of PostgreSQL.

    The next heartbeat after the outage reconnects and acquires the role again.
    """

    def __init__(self, connect: Callable[[], sql.Connection], role: str, timeout: float) -> None:
        """`connect` opens a connection, at first and after each outage; `timeout`: as of `Role`."""
        self._connect = connect
        self._role_name = role
        self.connection = connect()
        self._role = Role(self.connection, role, timeout)
        self._is_disconnected = False

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
        with suppress(sql.DatabaseError):
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
