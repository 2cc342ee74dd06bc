"""Signals as events: SIGINT and SIGTERM stop a process, SIGHUP reloads it.

A SIGHUP that is followed by the loss of the controlling terminal stops it, too.

A signal handler in Python runs in the main thread between any two bytecodes, also inside
`threading.Event.wait` while that holds the event's lock. `Event.set` takes the same lock, which is
not re-entrant: called in a handler, it deadlocks with the thread that it interrupted. So the
handlers here do nothing. The interpreter's own handler, in C, writes the number of each signal to a
pipe (`signal.set_wakeup_fd`); a thread reads the pipe and sets the event.
"""

import atexit
import operator
import os
import select
import signal
import threading
import time

from archiver.threads import start_daemon

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds after a SIGHUP in which the terminal may close: a shell sends it before it exits.
_HANGUP_WINDOW = 2.0
_HANGUP_POLL = 0.1  # seconds


class Signals:
    """The events that signals set.

    Create one per process, in its main thread; it lives as long as the process.
    """

    def __init__(self, reloads: bool = False) -> None:
        """`reloads`: SIGHUP sets `reload`; otherwise it sets `stop`, as SIGTERM does."""
        self.stop = threading.Event()
        self.reload = threading.Event()
        self._reloads = reloads
        # A process started by nohup is meant to outlive its terminal.
        ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._ends_with_terminal = has_terminal() and not ignores_hangup
        self._reader, writer = os.pipe()
        # The handler in C must not block. A full pipe holds 65,536 signals, which is enough.
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _NUMBERS:
            # Any C function of two arguments without effect: unlike a Python function it cannot be
            # interrupted by the next signal, so that a burst of signals does not nest.
            signal.signal(number, operator.is_)
        # The interpreter restores the default actions at exit: a late signal would change the
        # exit code.
        atexit.register(_ignore_signals)
        start_daemon(self._read, "signals")

    def _read(self) -> None:
        check_until = 0.0
        while True:
            checking = time.monotonic() < check_until
            timeout = _HANGUP_POLL if checking else None
            ready, _, _ = select.select([self._reader], [], [], timeout)
            numbers = b""
            if ready:
                numbers = os.read(self._reader, 4096)
            if signal.SIGINT in numbers or signal.SIGTERM in numbers:
                self.stop.set()
            if signal.SIGHUP in numbers:
                if self._reloads:
                    self.reload.set()
                else:
                    self.stop.set()
                check_until = time.monotonic() + _HANGUP_WINDOW
                checking = True
            if checking and self._ends_with_terminal and not has_terminal():
                self.stop.set()


def _ignore_signals() -> None:
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal that is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
