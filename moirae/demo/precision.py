"""How often similar past failures have the same hidden cause, compared with two simple guesses.

No I/O.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean

from moirae.demo.failures import SimulatedFailure
from moirae.demo.resolutions import ALERT_GRACE

_ROUNDING_MARGIN = timedelta(seconds=1)  # an event's time may be rounded down to its second
_MIN_AGE = timedelta(minutes=2)  # of past events; the `gap` of the demo's rules
_RANKS = (1, 5)  # number of answers that count


@dataclass(frozen=True)
class FailureCase:
    """An event of a failure, with the hidden cause (None: unknown)."""

    eid: str
    rule: str
    host: str
    ts: datetime
    cause: str | None


# Past cases for a query, the best first.
_Ranking = Callable[[FailureCase], Sequence[FailureCase]]


def find_cause(
    failures: Iterable[SimulatedFailure], kind: str, host: str, ts: datetime, shift: timedelta
) -> str | None:
    """The hidden cause of an event; `shift`: how much later than planned the live phase was."""
    for failure in failures:
        if failure.kind != kind or failure.host != host:
            continue
        delay = timedelta(0)
        if not failure.resolution:  # of the live phase
            delay = shift
        first = failure.starts + delay - _ROUNDING_MARGIN
        end = failure.ends + delay + ALERT_GRACE
        if first <= ts < end:
            return failure.cause
    return None


def evaluate_precision(
    queries: Iterable[FailureCase],
    past: Sequence[FailureCase],
    answers: Mapping[str, Sequence[str]],
) -> dict[str, object]:
    """Share of the first answer and of the first five that have the query's cause.

    `answers`: event IDs by the ID of the query, most similar first. The baselines answer with the
    latest past events of the rule, and with the latest ones of the rule on the same host.
    """
    cases_by_id = {case.eid: case for case in past}

    def rank_similar(query: FailureCase) -> list[FailureCase]:
        cases = map(cases_by_id.get, answers.get(query.eid, ()))
        return [case for case in cases if case is not None]

    def rank_latest(query: FailureCase) -> list[FailureCase]:
        return _latest_cases(past, query)

    def rank_latest_on_host(query: FailureCase) -> list[FailureCase]:
        return [case for case in _latest_cases(past, query) if case.host == query.host]

    queries = [query for query in queries if query.cause is not None]
    return {
        "queries": len(queries),
        **_compute_precision(queries, rank_similar),
        "baselines": {
            "latest": _compute_precision(queries, rank_latest),
            "same_host_latest": _compute_precision(queries, rank_latest_on_host),
        },
    }


def _latest_cases(past: Iterable[FailureCase], query: FailureCase) -> list[FailureCase]:
    """The earlier cases of the query's rule, latest first."""
    cases = []
    for case in past:
        if case.rule == query.rule and case.ts < query.ts - _MIN_AGE:
            cases.append(case)
    return sorted(cases, key=lambda case: case.ts, reverse=True)


def _compute_precision(queries: Sequence[FailureCase], rank: _Ranking) -> dict[str, float]:
    precision = {}
    for k in _RANKS:
        shares = []
        for query in queries:
            causes = [case.cause for case in rank(query)[:k]]
            shares.append(causes.count(query.cause) / k)
        mean = 0.0
        if shares:
            mean = round(fmean(shares), 4)
        precision[f"precision_at_{k}"] = mean
    return precision
