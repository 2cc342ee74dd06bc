"""What was asked for lately is kept, the rest is made again: memory does not grow with the number of questions."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.engines.cost_model import EngineCosts
from recall.engines.lru_cache import DEFAULT_MAX_ENTRIES, LruCache


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5))
def test_the_keys_asked_for_last_are_known(asked: list[int], most: int) -> None:
    """And no others: each of these is made again."""
    lately: LruCache[int, object] = LruCache(most)
    made: list[int] = []
    for place, key in enumerate(asked):
        before = list(dict.fromkeys(reversed(asked[:place])))[:most]
        made.clear()
        lately.get_or_create(key, lambda key=key: made.append(key))
        assert made == ([] if key in before else [key])
        assert len(lately) <= most


def test_what_cannot_be_made_is_not_kept() -> None:
    lately: LruCache[str, int] = LruCache(2)
    with pytest.raises(ZeroDivisionError):
        lately.get_or_create("a", lambda: 1 // 0)
    assert lately.get_or_create("a", lambda: 1) == 1


def test_threads_get_the_same() -> None:
    """What one has learned the others know."""
    lately: LruCache[int, list[int]] = LruCache(8)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: lately.get_or_create(n % 8, list).append(n), range(4_000)))
    assert sorted(n for key in range(8) for n in lately.get_or_create(key, list)) == list(
        range(4_000)
    )


def test_costs_are_known_of_the_questions_asked_last() -> None:
    costs = EngineCosts()
    for question in range(3 * DEFAULT_MAX_ENTRIES):
        costs.model_for(str(question), "local").update(1.0, 5.0)
        costs.model_for(str(question), "spark")
    assert len(costs._models) == 2 * DEFAULT_MAX_ENTRIES
    assert costs.model_for(str(3 * DEFAULT_MAX_ENTRIES - 1), "local").predict_seconds(1.0) > 1.0
    assert costs.model_for("0", "local").predict_seconds(1.0) < 1.0
