"""Precision of similar past failures, and the hidden cause of an event."""

from datetime import UTC, datetime, timedelta

from moirae.demo.failures import SimulatedFailure
from moirae.demo.precision import FailureCase, evaluate_precision, find_cause

START = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NO_SHIFT = timedelta(0)


def _failure(resolution: str) -> SimulatedFailure:
    return SimulatedFailure(
        id="F0001",
        kind="memory",
        cause="leaking-proxy",
        host="cork-1",
        starts=START,
        ends=START + HOUR,
        resolution=resolution,
        resolved_by="ops-day",
    )


def _case(eid: str, hour: int, host: str, cause: str | None) -> FailureCase:
    return FailureCase(eid, "testbed/MemoryExhausted", host, START + hour * HOUR, cause)


def test_event_during_or_shortly_after_a_failure_has_its_cause() -> None:
    failures = [_failure("Restarted it.")]

    def cause_at(moment: datetime) -> str | None:
        return find_cause(failures, "memory", "cork-1", moment, NO_SHIFT)

    assert cause_at(START - timedelta(seconds=2)) is None
    assert cause_at(START) == "leaking-proxy"
    assert cause_at(START + HOUR + timedelta(minutes=14)) == "leaking-proxy"
    assert cause_at(START + HOUR + timedelta(minutes=16)) is None
    assert find_cause(failures, "network", "cork-1", START, NO_SHIFT) is None
    assert find_cause(failures, "memory", "cork-2", START, NO_SHIFT) is None


def test_only_failures_of_the_live_phase_are_shifted() -> None:
    shift = 3 * HOUR
    assert find_cause([_failure("")], "memory", "cork-1", START + shift, shift) == "leaking-proxy"
    assert find_cause([_failure("")], "memory", "cork-1", START, shift) is None
    assert find_cause([_failure("Fixed.")], "memory", "cork-1", START, shift) == "leaking-proxy"


def test_precision_counts_answers_with_the_cause_of_the_query() -> None:
    past = [
        _case("a", 1, "cork-1", "leaking-proxy"),
        _case("b", 2, "cork-2", "unbounded-heap"),
        _case("c", 3, "cork-1", "unbounded-heap"),
    ]
    queries = [
        _case("query", 9, "cork-2", "leaking-proxy"),
        _case("query of unknown cause", 9, "cork-1", None),
    ]
    answers = {"query": ["a", "expired", "b"]}
    assert evaluate_precision(queries, past, answers) == {
        "queries": 1,
        "precision_at_1": 1.0,
        "precision_at_5": 0.2,
        "baselines": {
            "latest": {"precision_at_1": 0.0, "precision_at_5": 0.2},
            "same_host_latest": {"precision_at_1": 0.0, "precision_at_5": 0.0},
        },
    }


def test_precision_is_zero_without_queries() -> None:
    precision = evaluate_precision([], [], {})
    assert (precision["queries"], precision["precision_at_1"]) == (0, 0.0)
