"""How good the similar past failures are, judged by the simulator's hidden causes, beside two
simple guesses. Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from moirae.demo.testbed import SimulatedFailure

# An alert may come so long after its failure has ended: silence is told late.
_ALERT_GRACE = timedelta(minutes=15)


@dataclass(frozen=True)
class FailureCase:
    """An event of the corpus, or one whose past was asked for: its rule, host, time and cause
    (None: unknown).
    """

    eid: str
    rule: str
    host: str
    ts: datetime
    cause: str | None


def find_cause(
    failures: Iterable[SimulatedFailure], kind: str, host: str, at: datetime, shift: timedelta
) -> str | None:
    """The hidden cause of an event; `shift`: how much later than planned the live phase was."""
    for failure in failures:
        late = timedelta(0) if failure.resolution else shift
        during = (
            failure.starts + late - timedelta(seconds=1) <= at < failure.ends + late + _ALERT_GRACE
        )
        if failure.kind == kind and failure.host == host and during:
            return failure.cause
    return None


def evaluate_precision(
    queries: Sequence[FailureCase],
    past: Sequence[FailureCase],
    answers: Mapping[str, Sequence[str]],
) -> dict[str, object]:
    """Share of the first and the first five answers that have the query's cause; of the latest past
    events of the rule, and of those on the same host, likewise.
    """
    by_eid = {case.eid: case for case in past}
    asked = [query for query in queries if query.cause is not None]

    def similar(query: FailureCase) -> list[FailureCase]:
        return [by_eid[eid] for eid in answers.get(query.eid, ()) if eid in by_eid]

    def latest(query: FailureCase) -> list[FailureCase]:
        before = [
            case
            for case in past
            if case.rule == query.rule and case.ts < query.ts - timedelta(hours=1)
        ]
        return sorted(before, key=lambda case: case.ts, reverse=True)

    def same_host(query: FailureCase) -> list[FailureCase]:
        return [case for case in latest(query) if case.host == query.host]

    return {
        "queries": len(asked),
        **_precision_of(asked, similar),
        "baselines": {
            "latest": _precision_of(asked, latest),
            "same_host_latest": _precision_of(asked, same_host),
        },
    }


def _precision_of(
    queries: Sequence[FailureCase], choose: Callable[[FailureCase], list[FailureCase]]
) -> dict[str, float]:
    found = {}
    for k in (1, 5):
        shares = [
            sum(one.cause == query.cause for one in choose(query)[:k]) / k for query in queries
        ]
        found[f"precision_at_{k}"] = round(fmean(shares), 4) if shares else 0.0
    return found
