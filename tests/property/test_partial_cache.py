"""The cache of partial answers is bounded and evicts the least recently used ones."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recall.engines.routing.partial_cache import PartialCache


def test_recently_used_answers_are_not_evicted() -> None:
    cache = PartialCache(max_bytes=2 * (512 + 800))
    tables = [pa.table({"n": list(range(100))}) for _ in range(3)]
    cache.put("a", tables[0])
    cache.put("b", tables[1])
    assert cache.get({"a"}) == {"a": tables[0]}
    cache.put("c", tables[2])
    assert cache.get({"a", "b", "c"}).keys() == {"a", "c"}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 300)), max_size=60))
def test_size_limit_is_never_exceeded(answers: list[tuple[int, int]]) -> None:
    cache = PartialCache(max_bytes=4000)
    for key, rows in answers:
        cache.put(key, pa.table({"n": pa.array(range(rows), pa.int64())}))
        cached = cache.get(set(range(21)))
        assert sum(512 + table.nbytes for table in cached.values() if table is not None) <= 4000
