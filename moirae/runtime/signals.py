"""Signals as events: SIGINT and SIGTERM stop a process; SIGHUP reloads it, or stops it where its
terminal has closed.

A signal handler in Python runs in the main thread between any two bytecodes, also inside
`threading.Event.wait` while that holds the event's lock. `Event.set` takes the same lock, which is
not re-entrant: called in a handler it waits for the thread that it interrupts, for ever. So the
handlers here do nothing. The interpreter's own handler, in C, writes the number of each signal to
a pipe (`signal.set_wakeup_fd`), and a thread reads it there and sets the event.
"""

import atexit
import operator
import os
import select
import signal
import threading
import time

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds after a SIGHUP in which the terminal may close: a shell that exits sends it before its
# terminal goes.
_HANGUP = 2.0
_HANGUP_POLL = 0.1  # seconds


class Signals:
    """The events that signals set. One per process, made in its main thread; it lives as long as
    the process.
    """

    def __init__(self, reloads: bool = False) -> None:
        """`reloads`: SIGHUP sets `reload`; otherwise it sets `stop`, as SIGTERM does."""
        self.stop = threading.Event()
        self.reload = threading.Event()
        self._reloads = reloads
        # Who started the process under nohup wants it to outlive the terminal.
        outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._on_terminal = has_terminal() and not outlives
        self._reader, writer = os.pipe()
        os.set_blocking(
            writer, False
        )  # the handler in C must not wait; a full pipe holds 65,536 signals already
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _NUMBERS:
            # Any function in C that does nothing with two arguments: unlike one in Python it cannot
            # be interrupted by the next signal, so that a burst of them does not nest.
            signal.signal(number, operator.is_)
        # The interpreter restores the default actions while it ends: a late signal would spoil the
        # exit code.
        atexit.register(_ignore)
        threading.Thread(target=self._read, daemon=True, name="signals").start()

    def _read(self) -> None:
        check_until = 0.0
        while True:
            checking = time.monotonic() < check_until
            ready, _, _ = select.select([self._reader], [], [], _HANGUP_POLL if checking else None)
            numbers = os.read(self._reader, 4096) if ready else b""
            if signal.SIGINT in numbers or signal.SIGTERM in numbers:
                self.stop.set()
            if signal.SIGHUP in numbers:
                (self.reload if self._reloads else self.stop).set()
                check_until = time.monotonic() + _HANGUP
                checking = True
            if checking and self._on_terminal and not has_terminal():
                self.stop.set()


def _ignore() -> None:
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal that is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
