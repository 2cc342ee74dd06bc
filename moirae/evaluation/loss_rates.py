"""How many of its candidate rows a rule loses. No I/O.

A rule whose rate is above the limit is switched off, so the limit is a share of its candidate rows and
a number of rows: some crafted rows must not switch a detection off.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moirae.evaluation.plan import RuleVersion

WINDOW = 600.0  # seconds over which losses are counted
_RESOLUTION = 1.0  # seconds within which counts become one


class LossLimits(NamedTuple):
    """Both must be exceeded. `share`: of the candidate rows; `rows`: that were lost."""

    share: float
    rows: int


class _Counts:
    """Counts by name within the window."""

    def __init__(self) -> None:
        self._counts: dict[object, deque[tuple[float, int]]] = defaultdict(deque)

    def add(self, name: object, count: int, now: float) -> None:
        counts = self._counts[name]
        if counts and now - counts[-1][0] < _RESOLUTION:
            since, earlier = counts.pop()
            counts.append((since, earlier + count))
        else:
            counts.append((now, count))
        self._drop_old(counts, now)

    def total(self, name: object, now: float) -> int:
        counts = self._counts.get(name)
        if counts is None:
            return 0
        self._drop_old(counts, now)
        return sum(count for _, count in counts)

    def _drop_old(self, counts: deque[tuple[float, int]], now: float) -> None:
        while counts and counts[0][0] <= now - WINDOW:
            counts.popleft()

    def retain(self, names: Iterable[object]) -> None:
        for name in self._counts.keys() - set(names):
            del self._counts[name]


class LossRates:
    """The rows that rules evaluated and lost in the last ten minutes. Times by a monotonic clock."""

    def __init__(self, limits: LossLimits) -> None:
        self._limits = limits
        self._stream_rows = _Counts()
        self._candidates = _Counts()
        self._losses = _Counts()  # in all evaluations
        self._new_losses = _Counts()  # of rows that were not lost before
        self._sampled = _Counts()
        self._sampled_candidates = _Counts()
        self._sample_losses = _Counts()

    def add_rows(self, rows: Mapping[str, int], now: float) -> None:
        """Rows that were evaluated, by stream."""
        for stream, count in rows.items():
            self._stream_rows.add(stream, count, now)

    def add_candidates(self, candidates: Mapping[RuleVersion, int], now: float) -> None:
        """Rows that the index found for rules."""
        for version, count in candidates.items():
            self._candidates.add(version, count, now)

    def add_losses(self, version: RuleVersion, lost: int, new: int, now: float) -> None:
        """Rows that a rule lost in an evaluation; `new`: not lost before."""
        self._losses.add(version, lost, now)
        self._new_losses.add(version, new, now)

    def add_sample(
        self, version: RuleVersion, rows: int, candidates: int, lost: int, now: float
    ) -> None:
        """Rows that were evaluated of a rule in quarantine, one in many.

        `candidates`: those of them that the index found; 0 also if the rule is not in the index.
        """
        self._sampled.add(version, rows, now)
        self._sampled_candidates.add(version, candidates, now)
        self._sample_losses.add(version, lost, now)

    def exceeds(self, version: RuleVersion, stream: str, now: float) -> bool:
        """Whether a rule loses too many rows of its stream."""
        if self._new_losses.total(version, now) < self._limits.rows:
            return False
        candidates = self._candidates.total(version, now)
        if not candidates:
            candidates = self._stream_rows.total(stream, now)  # it is not in the index
        return self._losses.total(version, now) > self._limits.share * candidates

    def has_recovered(self, version: RuleVersion, now: float) -> bool:
        """Whether the samples of the last ten minutes were below the limit."""
        lost = self._sample_losses.total(version, now)
        candidates = self._sampled_candidates.total(version, now)
        return lost <= self._limits.share * (candidates or self._sampled.total(version, now))

    def retain(self, versions: set[RuleVersion]) -> None:
        """Forget all other rules."""
        for counts in (
            self._candidates,
            self._losses,
            self._new_losses,
            self._sampled,
            self._sampled_candidates,
            self._sample_losses,
        ):
            counts.retain(versions)
