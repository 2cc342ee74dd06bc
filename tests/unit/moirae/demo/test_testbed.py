"""The simulated testbed: reproducible rows, symptoms of failures, and traces of their causes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from moirae.demo.causes import CAUSES, CAUSES_BY_NAME, FAILURE_KINDS
from moirae.demo.failures import SimulatedFailure
from moirae.demo.testbed import STREAMS, StreamName, StreamRow, Testbed

LIVE = datetime(2026, 11, 21, 9, 30, 17, 123456, tzinfo=UTC)
END = LIVE + timedelta(seconds=75)
WITHIN = timedelta(minutes=30)


def make(seed: int, days: int = 2) -> Testbed:
    return Testbed(seed, LIVE - timedelta(days=days), LIVE, END)


@pytest.fixture(scope="module")
def testbed() -> Testbed:
    return make(7)


def history(testbed: Testbed, stream: StreamName) -> Iterator[StreamRow]:
    for _, rows in testbed.history(stream):
        yield from rows


def live(testbed: Testbed, stream: StreamName) -> list[StreamRow]:
    return testbed.live(stream, LIVE, END)


def at(row: StreamRow) -> datetime:
    return datetime.fromisoformat(str(row["ts"]))


def during(failures: Iterable[SimulatedFailure], row: StreamRow) -> list[SimulatedFailure]:
    return [f for f in failures if f.host == row["host"] and f.starts <= at(row) < f.ends]


def shows(row: StreamRow) -> set[str]:
    """The kinds of failure whose symptom is in the row."""
    limits = {"cpu": (92, "overload"), "memory": (94, "memory"), "lost": (40, "network")}
    return {kind for name, (limit, kind) in limits.items() if float(row.get(name, 0)) > limit}


def current(testbed: Testbed) -> list[SimulatedFailure]:
    return [failure for failure in testbed.failures if failure.starts >= LIVE]


def bags(testbed: Testbed) -> dict[str, Counter[str]]:
    """By failure ID, the terms of the processes on its host in the half hour before it."""
    terms_by_failure: dict[str, Counter[str]] = defaultdict(Counter)
    windows = defaultdict(list)
    for failure in testbed.failures:
        first, last = failure.starts - WITHIN, failure.starts
        windows[failure.host].append((first.isoformat()[:19], last.isoformat()[:23], failure.id))
    for row in [*history(testbed, "process"), *live(testbed, "process")]:
        ts = str(row["ts"])[:-1]
        for first_text, last_text, failure_id in windows.get(str(row["host"]), ()):
            if first_text <= ts <= last_text:
                terms_by_failure[failure_id].update(
                    f"{name}={row[name]}" for name in ("user", "experiment", "process")
                )
    return terms_by_failure


def most_similar(bag: Counter[str], earlier: list[Counter[str]]) -> int:
    """Index of the most similar earlier bag by TF-IDF cosine, the latest one among equals."""
    counts = Counter(term for other in [bag, *earlier] for term in other)
    idf = {term: math.log10((len(earlier) + 1) / count) for term, count in counts.items()}

    def cosine(other: Counter[str]) -> float:
        dot = sum(tf * other[term] * idf[term] ** 2 for term, tf in bag.items())
        norms = [sum((tf * idf[term]) ** 2 for term, tf in each.items()) for each in (bag, other)]
        return dot / math.sqrt(math.prod(norms)) if all(norms) else 0.0

    return max(range(len(earlier)), key=lambda index: (cosine(earlier[index]), index))


@pytest.mark.parametrize("seed", [5, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_the_most_similar_past_failure_of_the_kind_has_the_same_cause(seed: int) -> None:
    testbed = make(seed, days=14)
    contexts = bags(testbed)
    right = []
    for failure in current(testbed):
        earlier = [
            f for f in testbed.failures if f.kind == failure.kind and f.starts < failure.starts
        ]
        best = most_similar(contexts[failure.id], [contexts[f.id] for f in earlier])
        right.append(earlier[best].cause == failure.cause)
    assert sum(right) >= 0.8 * len(right)


def test_equal_seeds_give_equal_testbeds() -> None:
    first, second = make(3), make(3)
    assert (first.nodes, first.failures) == (second.nodes, second.failures)
    # Whatever the order in which streams are requested.
    for stream, opposite in zip(STREAMS, reversed(STREAMS), strict=True):
        assert live(first, stream) or stream == "started"
        assert list(history(second, opposite))
    for stream in STREAMS:
        assert live(first, stream) == live(second, stream)
        assert next(first.history(stream)) == next(second.history(stream))


def test_different_seeds_give_different_testbeds(testbed: Testbed) -> None:
    other = make(8)
    assert other.failures != testbed.failures
    assert all(live(other, stream) != live(testbed, stream) for stream in STREAMS[:3])


@pytest.mark.parametrize("stream", STREAMS)
def test_live_rows_do_not_depend_on_the_slicing(testbed: Testbed, stream: StreamName) -> None:
    cuts = [LIVE - timedelta(hours=1), LIVE]
    while cuts[-1] < END:
        cuts.append(cuts[-1] + timedelta(milliseconds=777, microseconds=len(cuts)))
    fresh = make(7)
    slices = [fresh.live(stream, since, until) for since, until in pairwise(cuts)]
    assert [row for rows in slices for row in rows] == live(testbed, stream)
    for since, rows in zip(cuts, slices, strict=False):
        assert all(since <= at(row) for row in rows)


@pytest.mark.parametrize("stream", STREAMS[:3])  # there are few starts
def test_rows_are_distinct_in_order_and_within_their_phase(
    testbed: Testbed, stream: StreamName
) -> None:
    past, now = list(history(testbed, stream)), live(testbed, stream)
    times = [str(row["ts"]) for row in past]
    assert times == sorted(times)
    assert (
        LIVE - timedelta(days=2)
        <= at(past[0])
        <= at(past[-1])
        < LIVE
        <= at(now[0])
        <= at(now[-1])
        < END
    )
    identities = [tuple(v for name, v in row.items() if name != "cpu") for row in past + now]
    assert len(set(identities)) == len(identities)
    assert len({row["ts"] for row in now}) > 0.5 * len({(row["ts"], row["host"]) for row in now})


@pytest.mark.parametrize("stream", ["node", "ping"])
def test_symptoms_occur_during_failures_only(testbed: Testbed, stream: StreamName) -> None:
    shown = {"node": {"overload", "memory"}, "ping": {"network"}}[stream]
    for row in [*history(testbed, stream), *live(testbed, stream)]:
        kinds: set[str] = {failure.kind for failure in during(testbed.failures, row)}
        assert shows(row) == kinds & shown, row
        assert "silent" not in kinds


def test_healthy_hosts_stay_well_below_the_limits(testbed: Testbed) -> None:
    rows = [
        *history(testbed, "node"),
        *history(testbed, "ping"),
        *live(testbed, "node"),
        *live(testbed, "ping"),
    ]
    healthy = {
        name: [float(r[name]) for r in rows if name in r and not shows(r)]
        for name in ("cpu", "memory", "lost")
    }
    assert max(healthy["cpu"]) <= 85
    assert max(healthy["memory"]) <= 88
    assert max(healthy["lost"]) <= 5


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_live_failure_shows_its_symptom(seed: int) -> None:
    testbed = make(seed)
    nodes, pings = live(testbed, "node"), live(testbed, "ping")
    for failure in current(testbed):
        rows = [row for row in nodes + pings if during([failure], row)]
        symptoms = [row for row in rows if failure.kind in shows(row)]
        assert not rows if failure.kind == "silent" else len(symptoms) >= 5, failure


@pytest.mark.parametrize("seed", range(1, 11))
def test_live_failures_are_on_different_healthy_hosts_and_have_a_past(seed: int) -> None:
    testbed = make(seed, days=14)
    failures = current(testbed)
    past = testbed.failures[: -len(failures)]
    assert 150 <= len(past) <= 220
    assert len(failures) == 10
    assert [f.starts for f in testbed.failures] == sorted(f.starts for f in testbed.failures)
    assert len({f.host for f in failures}) == len(failures)
    assert {f.kind for f in failures} == set(FAILURE_KINDS)
    for f in failures:
        assert LIVE + timedelta(seconds=8) <= f.starts <= END - timedelta(seconds=20)
        assert f.ends <= END
        assert f.ends - f.starts >= timedelta(seconds=20 if f.kind == "silent" else 12)
        assert sum(p.cause == f.cause for p in past) >= 3
        assert not any(p.host == f.host and p.ends > LIVE - timedelta(hours=1) for p in past)
        assert f.resolution == f.resolved_by == ""


@pytest.mark.parametrize("seed", range(1, 6))
def test_failures_of_a_long_live_phase_recur_on_other_hosts(seed: int) -> None:
    length = timedelta(minutes=10)
    testbed = Testbed(seed, LIVE - timedelta(days=2), LIVE, LIVE + length)
    failures = current(testbed)
    first, second = failures[:10], failures[10:]
    assert [f.cause for f in first] == [f.cause for f in second]
    assert len({f.host for f in failures}) == len(failures) == 20
    assert all(f.starts < LIVE + length / 2 for f in first)
    for earlier, later in zip(first, second, strict=True):
        assert timedelta(minutes=4) < later.starts - earlier.starts < timedelta(minutes=6)
    assert testbed.repeats_causes
    assert not make(seed).repeats_causes


def test_long_live_phase_of_few_hosts_has_no_more_failures_than_a_short_one() -> None:
    testbed = Testbed(1, LIVE - timedelta(days=2), LIVE, LIVE + timedelta(hours=1), nodes=20)
    assert len(current(testbed)) == 10


@pytest.mark.parametrize("seed", range(1, 6))
def test_cause_does_not_follow_from_recency_or_host(seed: int) -> None:
    failures = make(seed, days=14).failures
    same_kind = same_host = 0
    for index, failure in enumerate(failures):
        before = [f for f in failures[:index] if f.kind == failure.kind]
        same_kind += bool(before) and before[-1].cause == failure.cause
        on_host = [f for f in before if f.host == failure.host]
        same_host += bool(on_host) and on_host[-1].cause == failure.cause
    assert max(same_kind, same_host) <= 0.25 * len(failures)


def test_past_failures_have_a_resolution_of_their_cause(testbed: Testbed) -> None:
    for failure in testbed.failures:
        if failure.starts < LIVE:
            min_length = timedelta(minutes=25 if failure.kind == "silent" else 15)
            assert min_length <= failure.ends - failure.starts <= timedelta(hours=1)
            assert failure.resolution.startswith(CAUSES_BY_NAME[failure.cause].notes)
            assert failure.resolved_by in {"ops-day", "ops-night", "site-admin", "on-call"}
    assert len({cause.tag for cause in CAUSES}) == len(CAUSES)


def test_signature_of_the_cause_precedes_the_failure(testbed: Testbed) -> None:
    missing = 0
    contexts = bags(testbed)
    for failure in testbed.failures:
        first, *others = CAUSES_BY_NAME[failure.cause].signature
        assert first in contexts[failure.id]
        assert sum(term in contexts[failure.id] for term in others) >= len(others) - 1 >= 1
        missing += any(term not in contexts[failure.id] for term in others)
    assert missing > 0.3 * len(testbed.failures)


def test_process_sample_just_before_each_live_failure_shows_its_cause(testbed: Testbed) -> None:
    rows = live(testbed, "process")
    for failure in current(testbed):
        last = [
            r for r in rows if r["host"] == failure.host and timedelta() < failure.starts - at(r)
        ]
        newest = max(at(row) for row in last)
        assert failure.starts - newest <= timedelta(seconds=3)
        terms = {f"process={row['process']}" for row in last if at(row) == newest}
        assert CAUSES_BY_NAME[failure.cause].signature[0] in terms


def test_single_terms_of_signatures_also_occur_without_failure(testbed: Testbed) -> None:
    terms = {term for cause in CAUSES for term in cause.signature if term.startswith("process=")}
    around = defaultdict(list)
    for f in testbed.failures:
        around[f.host].append(
            ((f.starts - timedelta(hours=1)).isoformat()[:19], f.ends.isoformat()[:19])
        )
    harmless = {
        f"process={row['process']}"
        for row in history(testbed, "process")
        if not any(
            since <= str(row["ts"])[:-1] <= until for since, until in around[str(row["host"])]
        )
    }
    assert len(harmless & terms) > 0.5 * len(terms)


def test_too_small_testbed_is_rejected() -> None:
    with pytest.raises(ValueError, match="history"):
        Testbed(1, LIVE, LIVE, END)
    with pytest.raises(ValueError, match="30 seconds"):
        Testbed(1, LIVE - timedelta(days=2), LIVE, LIVE)
    with pytest.raises(ValueError, match="20 nodes"):
        Testbed(1, LIVE - timedelta(days=2), LIVE, END, nodes=3)


def test_the_smallest_testbed_works_with_any_seed() -> None:
    for seed in range(50):
        Testbed(seed, LIVE - timedelta(days=1), LIVE, LIVE + timedelta(seconds=30), nodes=20)


def test_the_experiment_of_a_failure_mostly_starts_within_the_hour_before(testbed: Testbed) -> None:
    """A failure may lack one term of its signature, which may be the experiment."""
    starts = [*history(testbed, "started"), *live(testbed, "started")]
    oldest = LIVE - timedelta(days=2) + timedelta(hours=1)
    failures = [failure for failure in testbed.failures if failure.starts > oldest]
    explained = 0
    for failure in failures:
        experiments = {
            f"experiment={row['experiment']}"
            for row in starts
            if row["host"] == failure.host
            and failure.starts - timedelta(hours=1) < at(row) < failure.starts
        }
        explained += not experiments.isdisjoint(CAUSES_BY_NAME[failure.cause].signature)
    assert explained > 0.6 * len(failures)
