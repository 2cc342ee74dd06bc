"""Leases: how a process notices that another one, on a machine that is gone, holds a role no more.

The lock of a role ends with the session of its holder. PostgreSQL keeps the session of a machine
that was frozen or cut off for hours: so a holder renews its lease, from a thread of its own, and
who waits for the role ends the session of a holder that does not. Renewals are counted: no clocks
are compared. With each renewal the process reads the clock of the database, which decides what
depends on the time of day. A process with the embedded database needs no lease, all others are on its machine.
"""

import socket
import threading
from collections.abc import Callable
from functools import partial

import structlog

import sql
from archiver.clock import SHARED_CLOCK
from archiver.threads import start_daemon
from moirae.config import Settings
from moirae.errors import MoiraeError
from moirae.runtime.database import connect_database
from sql.processes import ProcessGateway

_LOG = structlog.get_logger()

RENEWAL_INTERVAL = 2.0  # seconds
OBSERVATION_INTERVAL = 1.0  # seconds between two looks at the lease of another process
# Looks without a renewal in between after which a lease has expired. Looks count, not seconds: who
# waits may have been frozen itself, or the database away, and a holder renews before the last look.
_MAX_UNCHANGED = 12


def machine_name(settings: Settings) -> str:
    """Host and home of this workspace: processes with another name are on another machine."""
    return f"{socket.gethostname()}:{settings.home}"


class LeaseWatch:
    """Decides from looks at the lease of a process whether it has expired."""

    def __init__(self) -> None:
        self._seen: tuple[int, int | None] | None = None
        self._unchanged = 0

    def has_expired(self, epoch: int, renewals: int | None) -> bool:
        """Look at the lease; `OBSERVATION_INTERVAL` after the look before."""
        if renewals is None or (epoch, renewals) != self._seen:
            self._seen = (epoch, renewals)
            self._unchanged = 0
            return False
        self._unchanged += 1
        return self._unchanged >= _MAX_UNCHANGED

    def reset(self) -> None:
        """Forget all looks, as after an outage of the database."""
        self._seen = None


def keep_lease(settings: Settings, role: str, epoch: int) -> None:
    """Renew the lease of a role from now on, in a thread that ends with the process or the role."""
    if settings.database:
        renewal = LeaseRenewal(lambda: connect_database(settings, f"{role} lease"), role, epoch)
        start_daemon(renewal.run, f"{role} lease")


class LeaseRenewal:
    """Renews the lease of a role by a connection of its own: others may wait for long statements."""

    def __init__(self, connect: Callable[[], sql.Connection], role: str, epoch: int) -> None:
        self._connect = connect
        self._role = role
        self._epoch = epoch
        self._connection: sql.Connection | None = None
        self.stop = threading.Event()
        """Set to end it."""

    def run(self) -> None:
        """Renew the lease until another process has the role. Outages are waited for."""
        while self._renew():
            if self.stop.wait(RENEWAL_INTERVAL):
                break
        self._close()

    def _renew(self) -> bool:
        """Returns False if another process has the role."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            if SHARED_CLOCK.follow(
                partial(ProcessGateway(self._connection).renew, self._role, self._epoch)
            ):
                return True
        except (sql.DatabaseError, MoiraeError):  # reported by those that use the database
            self._close()
            return True
        _LOG.error(
            "another process has taken over the role", action="role_lost", process=self._role
        )
        return False

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
