"""The Recall Manager: who reads which piece of history next, and what becomes of what was read.

One loop: carry out commands, claim tasks, give turns (at most N history queries at once), take results in. Each result
moves its task's cursor, partial answer and revision in one transaction, so that a piece counts once whenever the
process is killed.
"""

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from psycopg import Connection

from recall.commands import Commands
from recall.corpora import Corpora
from recall.engines.chosen import Engines
from recall.keys import Keys
from recall.ledger import LEASE, Ledger
from recall.manager.comparing import Comparisons
from recall.manager.desk import Desk
from recall.manager.judging import Judging
from recall.manager.load import Load
from recall.manager.preparing import Background, Preparing
from recall.manager.turns import Turns
from recall.manager.workers import Job, Workers, rest
from recall.schedule.stride import Stride

# All in seconds. Between two looks for what is new; the longest stretch of turns that need no engine; between two
# looks at what has become of tasks; at what is left lying, or waits for feedback in vain; at how busy the machine is;
# between two signs of life.
_LOOK, _TURNS, _FOLLOW, _SWEEP, _LOAD, _SIGN = 0.05, 0.05, 0.25, 1.0, 2.0, LEASE.total_seconds() / 3


class Manager:
    """The loop of one process. `engines`: a Spark session each, as many as may be in use at once; `least`: how many may
    be however busy the machine is (absent: all). `stuck`: seconds that a history query may take. `background`: what is
    to be done with history beside recalls."""

    def __init__(
        self,
        connection: Connection[Any],
        ledger: Ledger,
        corpora: Corpora,
        keys: Keys,
        engines: list[Engines],
        stuck: float,
        least: int | None = None,
        stride: Stride[UUID] | None = None,
        background: Background | None = None,
    ) -> None:
        self._ledger = ledger
        self._workers = Workers(engines, ledger, stuck)
        self._desk = Desk(connection, ledger, corpora, keys, stride if stride is not None else Stride())
        self._preparing = Preparing(self._desk, self._workers, background)
        comparisons = Comparisons(corpora, ledger, self._preparing.missing, self._preparing.lost)
        self._turns = Turns(connection, ledger, self._desk, comparisons, self._preparing, self._workers)
        self._judging = Judging(ledger, self._workers)
        self._commands = Commands(connection, len(engines))
        self._load = None if least is None else Load(connection, least, len(engines))
        self._keys = keys
        self._due: dict[str, float] = {}

    def run(self, stop: threading.Event, beat: Callable[[], None]) -> None:
        """Until told to stop. `beat` is called again and again."""
        while not stop.is_set():
            self.round()
            beat()
            if not self.rest() and not self._desk.able() and not self._keys.learn():
                stop.wait(_LOOK)
        self.finish()
        self._ledger.release()

    def rest(self) -> bool:
        """Until a query that is under way has ended; False: there is none."""
        return rest(self._jobs(), _LOOK)

    def finish(self) -> None:
        """Begin nothing more; what is under way counts for nothing, and is read again by the next process."""
        self._preparing.finish()
        self._workers.close()

    def round(self) -> None:
        """One look at everything."""
        if self._time("sign", _SIGN):
            self._ledger.renew()
        if self._time("sweep", _SWEEP):
            self._ledger.reclaim()
            self._commands.expire()
        if self._commands.obey() or self._time("follow", _FOLLOW):
            self._desk.follow()
            self._turns.give_up()
        if self._load is not None and self._time("load", _LOAD):
            self._workers.places = self._load.places()
        self._workers.watch(self._jobs())
        self._desk.claim()
        self._preparing.collect()
        self._judging.ended(self._turns.collect())
        self._judging.judge()
        enough = time.monotonic() + _TURNS
        while time.monotonic() < enough:
            ended = self._turns.give()
            if ended is None:
                break
            self._judging.ended(ended)
        self._preparing.idle()

    def _time(self, what: str, seconds: float) -> bool:
        """Whether it is time again for what is done now and then."""
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + seconds
        return True

    def _jobs(self) -> list[Job[Any]]:
        return [*self._turns.jobs, *self._judging.jobs, *self._preparing.jobs]
