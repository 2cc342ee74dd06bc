"""The bounded cache of values derived from questions."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.engines.lru_cache import LruCache


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5))
def test_only_the_last_used_keys_are_cached(keys: list[int], max_entries: int) -> None:
    cache: LruCache[int, object] = LruCache(max_entries)
    created: list[int] = []
    for position, key in enumerate(keys):
        last_used = list(dict.fromkeys(reversed(keys[:position])))[:max_entries]
        created.clear()
        cache.get_or_create(key, lambda key=key: created.append(key))
        assert created == ([] if key in last_used else [key])
        assert len(cache) <= max_entries


def test_exception_is_not_cached() -> None:
    cache: LruCache[str, int] = LruCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_create("a", lambda: 1 // 0)
    assert cache.get_or_create("a", lambda: 1) == 1


def test_cleared_cache_creates_its_values_again() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.get_or_create("a", lambda: 1)
    cache.clear()
    assert len(cache) == 0
    assert cache.get_or_create("a", lambda: 2) == 2


def test_all_threads_get_the_same_value() -> None:
    cache: LruCache[int, list[int]] = LruCache(8)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: cache.get_or_create(n % 8, list).append(n), range(4_000)))
    numbers: list[int] = []
    for key in range(8):
        numbers += cache.get_or_create(key, list)
    assert sorted(numbers) == list(range(4_000))
