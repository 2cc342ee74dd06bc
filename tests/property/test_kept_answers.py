"""Partial answers are kept within their room, the last used the longest; and only where they depend
on nothing else.
"""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recall.engines.partial_cache import PartialCache
from recall.engines.template import Template
from recall.requests import SqlQuestion


def test_the_last_used_stay() -> None:
    kept = PartialCache(max_bytes=2 * (512 + 800))
    tables = [pa.table({"n": list(range(100))}) for _ in range(3)]
    kept.put("a", tables[0])
    kept.put("b", tables[1])
    assert kept.get({"a"}) == {"a": tables[0]}
    kept.put("c", tables[2])
    assert kept.get({"a", "b", "c"}).keys() == {"a", "c"}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 300)), max_size=60))
def test_room_is_never_exceeded(answers: list[tuple[int, int]]) -> None:
    kept = PartialCache(max_bytes=4000)
    for key, rows in answers:
        kept.put(key, pa.table({"n": pa.array(range(rows), pa.int64())}))
        known = kept.get(set(range(21)))
        assert sum(512 + table.nbytes for table in known.values() if table is not None) <= 4000


def _parameters(sql: str, **own: dict[str, str]) -> tuple[str, ...] | None:
    types = {"host": "string", "cpu": "double", "slice": "string"}
    return Template(
        SqlQuestion(None, 1.0, "newest", sql, {"past": "ts"}, (), {}, types, own, {})
    ).parameters


def test_on_what_an_answer_depends() -> None:
    assert _parameters(
        "SELECT count(*) AS n FROM past h WHERE h.host = event.host AND h.v < event.cpu"
    ) == (
        "cpu",
        "host",
    )
    assert _parameters("SELECT count(*) AS n FROM past h") == ()
    assert (
        _parameters("SELECT count(*) AS n FROM past h WHERE h.ts > event.ts - INTERVAL '1 hour'")
        is None
    )
