"""Timers and periodic actions, run by the thread that owns them.

Times are seconds of a monotonic clock. `archiver.background` runs periodic actions in a thread of
their own. A daemon thread with one action, which must not delay the end of the process, waits on
its stop event instead.
"""

import time
from collections.abc import Callable, Sequence

Clock = Callable[[], float]
"""Returns seconds; monotonic."""


class Timer:
    """Whether an interval has passed.

    `every`: seconds between two times; 0: always due. `first_after`: seconds until the first time.
    """

    def __init__(
        self, every: float, first_after: float = 0.0, clock: Clock = time.monotonic
    ) -> None:
        self._every = every
        self._clock = clock
        self._due_at = clock() + first_after

    def is_due(self, now: float | None = None) -> bool:
        """Whether the time has come. `now`: a reading of the clock; None: read it."""
        return (self._clock() if now is None else now) >= self._due_at

    def restart(self, now: float | None = None, after: float | None = None) -> None:
        """Be due again `after` seconds from `now`; `after` None: the interval."""
        start = self._clock() if now is None else now
        self._due_at = start + (self._every if after is None else after)

    def seconds_left(self) -> float:
        """Seconds until it is due; 0 if it is due."""
        return max(0.0, self._due_at - self._clock())


class Periodic:
    """An action that runs every `every` seconds, counted from the start of its last run.

    An error of the action is raised to the caller, with a note of its name; the action is due again
    after the interval.
    """

    def __init__(
        self,
        name: str,
        every: float,
        action: Callable[[], None],
        *,
        first_after: float = 0.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self.name = name
        self._action = action
        self._clock = clock
        self._timer = Timer(every, first_after, clock)
        self._started_at = clock()

    def run_if_due(self, now: float | None = None) -> None:
        """Run the action if it is due. `now`: a reading of the clock; None: read it."""
        moment = self._clock() if now is None else now
        if self._timer.is_due(moment):
            self.run(moment)

    def run(self, now: float | None = None) -> None:
        """Run the action now, whether or not it is due."""
        self._started_at = self._clock() if now is None else now
        self._timer.restart(self._started_at)
        try:
            self._action()
        except Exception as error:
            error.add_note(f"while running the periodic action {self.name!r}")
            raise

    def run_again_after(self, seconds: float) -> None:
        """Make the action due `seconds` after the start of its last run, once."""
        self._timer.restart(self._started_at, seconds)

    def restart(self) -> None:
        """Count the interval from now instead of from the start of the last run."""
        self._timer.restart()

    def seconds_left(self) -> float:
        """Seconds until the action is due; 0 if it is due."""
        return self._timer.seconds_left()


class Schedule:
    """Periodic actions that one thread runs in a fixed order."""

    def __init__(self, periodics: Sequence[Periodic], clock: Clock = time.monotonic) -> None:
        self._periodics = tuple(periodics)
        self._clock = clock

    def run_due(self) -> None:
        """Run the actions that are due when this is called, in order.

        An error of an action is raised at once: the actions after it run with the next call.
        """
        now = self._clock()
        for periodic in self._periodics:
            periodic.run_if_due(now)
