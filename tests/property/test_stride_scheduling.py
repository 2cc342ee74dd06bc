"""Stride scheduling: shares follow tickets, nobody starves, coming and going gives neither credit
nor debt.
"""

import math
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from recall.scheduling.run_length import choose_run_length
from recall.scheduling.stride import StrideScheduler


def turns(stride: StrideScheduler[str], able: list[str], count: int) -> Counter[str]:
    """Who got how many turns."""
    given_to: Counter[str] = Counter()
    for _ in range(count):
        task = stride.next_task(able)
        assert task is not None
        stride.charge_pieces({task: 1})
        given_to[task] += 1
    return given_to


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8))
def test_shares_follow_tickets(tickets: list[int]) -> None:
    """Within 10 % once everybody has had some turns; here each is off by at most one turn or so."""
    stride: StrideScheduler[str] = StrideScheduler()
    for number, count in enumerate(tickets):
        stride.join(str(number), count)
    total = sum(tickets)
    rounds = 40 * total // min(tickets)
    found = turns(stride, [str(n) for n in range(len(tickets))], rounds)
    for number, count in enumerate(tickets):
        wanted = rounds * count / total
        assert abs(found[str(number)] - wanted) <= max(0.1 * wanted, 2)


def test_one_two_four() -> None:
    stride: StrideScheduler[str] = StrideScheduler()
    for name, tickets in (("a", 100), ("b", 200), ("c", 400)):
        stride.join(name, tickets)
    assert turns(stride, ["a", "b", "c"], 700) == {"a": 100, "b": 200, "c": 400}


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_who_comes_and_goes_gains_nothing(seed: int, count: int) -> None:
    """A task that leaves and comes again, over and over, gets no more than its share; the others
    get theirs.
    """
    rng = random.Random(seed)
    stride: StrideScheduler[str] = StrideScheduler()
    steady = [f"steady {n}" for n in range(count)]
    for name in steady:
        stride.join(name, 100)
    stride.join("restless", 100)
    found: Counter[str] = Counter()
    for _ in range(200 * (count + 1)):
        if rng.random() < 0.5:
            stride.leave("restless")
            stride.join("restless", 100)
        task = stride.next_task([*steady, "restless"])
        assert task is not None
        stride.charge_pieces({task: 1})
        found[task] += 1
    assert found["restless"] <= 200 + 2
    assert all(found[name] >= 200 - 2 for name in steady)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=6), st.integers(1, 8))
def test_shares_hold_where_turns_are_given_together(tickets: list[int], pieces: int) -> None:
    """All whose turn comes before the next one of who is served are served with it."""
    stride: StrideScheduler[int] = StrideScheduler()
    for number, count in enumerate(tickets):
        stride.join(number, count)
    found: Counter[int] = Counter()
    while min((found[number] for number in range(len(tickets))), default=0) < 40 * pieces:
        task = stride.next_task(range(len(tickets)))
        assert task is not None
        others = [
            n for n in range(len(tickets)) if n != task and stride.is_due_before(n, task, pieces)
        ]
        together = dict.fromkeys([task, *others], pieces)
        stride.charge_pieces(together)
        found.update(together)
    total = sum(found.values())
    for number, count in enumerate(tickets):
        wanted = total * count / sum(tickets)
        assert abs(found[number] - wanted) <= max(0.1 * wanted, 2 * pieces)


def test_nobody_starves_beside_a_giant() -> None:
    stride: StrideScheduler[str] = StrideScheduler()
    stride.join("giant", 100_000)
    stride.join("dwarf", 1)
    assert turns(stride, ["giant", "dwarf"], 200_100)["dwarf"] >= 1


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.integers(0, 2**32))
def test_shares_follow_tickets_in_runs_of_pieces(tickets: list[int], seed: int) -> None:
    """A task that gets several pieces at once has had as many turns."""
    rng = random.Random(seed)
    stride: StrideScheduler[int] = StrideScheduler()
    for number, count in enumerate(tickets):
        stride.join(number, count)
    found: Counter[int] = Counter()
    for _ in range(60 * sum(tickets)):
        task = stride.next_task(range(len(tickets)))
        assert task is not None
        pieces = rng.randint(1, 4)
        stride.charge_pieces({task: pieces})
        found[task] += pieces
    for number, count in enumerate(tickets):
        wanted = found.total() * count / sum(tickets)
        assert abs(found[number] - wanted) <= max(0.1 * wanted, 8)


@given(st.integers(1, 2000), st.none() | st.just(0.0) | st.floats(0.0001, 10))
def test_runs_grow_and_end(total: int, each: float | None) -> None:
    """Alone, a task of n pieces needs about log₇ n queries, none of which takes much over a second."""
    read, runs = 0, []
    while read < total:
        runs.append(choose_run_length(read, total - read, each, is_alone=True))
        read += runs[-1]
    assert read == total and runs[0] == 1
    assert each is None or all(pieces == 1 or pieces * each <= 1.0 for pieces in runs)
    if each is None:
        assert set(runs) == {1}
    elif each * total <= 1.0:
        assert len(runs) <= math.log(total, 7) + 2


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_a_turn_is_one_piece_where_others_wait(read: int, left: int) -> None:
    assert choose_run_length(read, left, 0.0, is_alone=False) == 1


def test_the_second_level_waits_for_the_first() -> None:
    stride: StrideScheduler[str] = StrideScheduler()
    stride.join("background", 100_000, level=1)
    stride.join("user", 1, level=0)
    assert turns(stride, ["background", "user"], 50) == {"user": 50}
    assert turns(stride, ["background"], 5) == {"background": 5}


def test_more_tickets_count_from_then_on() -> None:
    stride: StrideScheduler[str] = StrideScheduler()
    stride.join("a", 100)
    stride.join("b", 100)
    turns(stride, ["a", "b"], 100)
    stride.join("a", 900)
    found = turns(stride, ["a", "b"], 1000)
    assert abs(found["a"] - 900) <= 10
