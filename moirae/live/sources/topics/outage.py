"""How long a topic could not be read, and when that is said. No I/O; the clock is an argument."""

from typing import NamedTuple

from archiver.periodic import Clock
from sql.topics import SourceErrorKind

# Seconds of failed tries after which an error is said: the leader of a partition may change, a
# topic may be made again.
_PATIENCE = 5.0
_DRAIN_PATIENCE = 20.0  # seconds after which a drain goes on without the topic
_MIN_PAUSE = 0.2  # seconds between tries, which doubles
_MAX_PAUSE = 5.0


class SourceProblem(NamedTuple):
    """Why a topic cannot be read; the text is for the user."""

    kind: SourceErrorKind
    error: str


class TopicOutage:
    """Of one topic. `problem` may be read by any thread; None: the topic can be read, or it has
    failed for a short time only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing_since: float | None = None
        self._tries = 0
        self.problem: SourceProblem | None = None

    def record(self, problem: SourceProblem) -> bool:
        """Record that a try failed. Returns whether that is to be said: it has become long, or
        another kind of error.
        """
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        self._tries += 1
        if now - self._failing_since < _PATIENCE:
            return False
        previous = self.problem
        self.problem = problem
        return previous is None or previous.kind != problem.kind

    def end(self) -> bool:
        """Record that a try succeeded. Returns whether there was a problem."""
        had_problem = self.problem is not None
        self._failing_since = None
        self._tries = 0
        self.problem = None
        return had_problem

    @property
    def is_failing(self) -> bool:
        """Whether the last try failed."""
        return self._failing_since is not None

    @property
    def pause(self) -> float:
        """Seconds until the next try."""
        return float(min(_MAX_PAUSE, _MIN_PAUSE * 2 ** min(self._tries - 1, 10)))

    @property
    def is_given_up(self) -> bool:
        """Whether a drain does not wait any longer."""
        return (
            self._failing_since is not None
            and self._clock() - self._failing_since >= _DRAIN_PATIENCE
        )
