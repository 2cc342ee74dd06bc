"""How good the similar past failures are, judged by the simulator's hidden causes, beside two simple guesses. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from moirae.demo.testbed import Failure

# An alert may come so long after its failure has ended: silence is told late.
_AFTER = timedelta(minutes=15)


@dataclass(frozen=True)
class Case:
    """An event of the corpus, or one whose past was asked for: its rule, host, time and cause (None: unknown)."""

    eid: str
    rule: str
    host: str
    ts: datetime
    cause: str | None


def cause(failures: Iterable[Failure], kind: str, host: str, at: datetime, shift: timedelta) -> str | None:
    """The hidden cause of an event; `shift`: how much later than planned the live phase was."""
    for failure in failures:
        late = timedelta(0) if failure.resolution else shift
        during = failure.starts + late - timedelta(seconds=1) <= at < failure.ends + late + _AFTER
        if failure.kind == kind and failure.host == host and during:
            return failure.cause
    return None


def judged(queries: Sequence[Case], past: Sequence[Case], answers: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Share of the first and the first five answers that have the query's cause; of the latest past events of the
    rule, and of those on the same host, likewise."""
    by_eid = {case.eid: case for case in past}
    asked = [query for query in queries if query.cause is not None]

    def similar(query: Case) -> list[Case]:
        return [by_eid[eid] for eid in answers.get(query.eid, ()) if eid in by_eid]

    def latest(query: Case) -> list[Case]:
        before = [case for case in past if case.rule == query.rule and case.ts < query.ts - timedelta(hours=1)]
        return sorted(before, key=lambda case: case.ts, reverse=True)

    def same_host(query: Case) -> list[Case]:
        return [case for case in latest(query) if case.host == query.host]

    return {
        "queries": len(asked),
        **_precision(asked, similar),
        "baselines": {"latest": _precision(asked, latest), "same_host_latest": _precision(asked, same_host)},
    }


def _precision(queries: Sequence[Case], choose: Callable[[Case], list[Case]]) -> dict[str, float]:
    found = {}
    for k in (1, 5):
        shares = [sum(one.cause == query.cause for one in choose(query)[:k]) / k for query in queries]
        found[f"precision_at_{k}"] = round(fmean(shares), 4) if shares else 0.0
    return found
