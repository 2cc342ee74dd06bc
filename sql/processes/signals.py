"""Signals between processes: LISTEN and NOTIFY of PostgreSQL, and a way to wait for them."""

import select
import socket
from contextlib import suppress
from typing import Final

from sql.connection import Connection
from sql.gateway import Gateway

# New tasks and commands for recall processes.
RECALL_CHANNEL: Final = "moirae_recalls"
# New back-tests for recall processes, and requests to end one.
BACKTEST_CHANNEL: Final = "moirae_backtests"


class SignalGateway(Gateway):
    """Sends signals. They are delivered when the caller's transaction commits."""

    queries = "signals"

    def notify_recall_processes(self) -> None:
        """Wake the recall processes: there are tasks to claim, or commands to execute."""
        self._execute("notify", channel=RECALL_CHANNEL)

    def notify_backtests(self) -> None:
        """Wake who starts and runs back-tests: one waits, or is cancelled."""
        self._execute("notify", channel=BACKTEST_CHANNEL)


class SignalListener:
    """Waits for signals on one channel, sent by other processes or by threads of this one.

    A connection may serve one listener, and other statements between the calls of `wait`.
    """

    def __init__(self, connection: Connection, channel: str = RECALL_CHANNEL) -> None:
        self._connection = connection
        connection.execute(f"LISTEN {channel}".encode())
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """End the current call of `wait`, or else the next one; may be called from any thread."""
        with suppress(OSError):  # signals wait already, or the listener was closed
            self._writer.send(b"\0")

    def wait(self, timeout: float) -> bool:
        """Wait for a signal; those since the last call count. False: none came in `timeout` s."""
        if self._receive():
            return True
        select.select([self._connection.fileno(), self._reader.fileno()], [], [], timeout)
        return self._receive()

    def _receive(self) -> bool:
        """Take the signals that have arrived; returns whether there were any."""
        has_arrived = False
        for _ in self._connection.notifies(timeout=0):
            has_arrived = True
        with suppress(BlockingIOError):
            while self._reader.recv(4096):
                has_arrived = True
        return has_arrived

    def close(self) -> None:
        """Release the sockets; the connection stays open."""
        self._reader.close()
        self._writer.close()
