"""The keys whose rows are furthest ahead of the clock."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from archiver.ingest.keys_ahead import MAX_KEYS, KeyAhead, find_keys_ahead, merge_keys_ahead
from archiver.times import to_micros

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = 1_000_000
HOUR = 3_600 * SECOND


def _rows(hosts: list[str | None], seconds: list[int]) -> pa.Table:
    times = [NOON + timedelta(seconds=offset) for offset in seconds]
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "n": list(range(len(hosts)))}
    return pa.table({**columns, "host": pa.array(hosts, pa.string())})


def test_the_furthest_row_of_each_key_counts() -> None:
    rows = _rows(["a", "b", "a", None, "c"], [5, 20, 9, 3, -8])
    is_ahead = np.array([True, True, True, True, False])
    keys = find_keys_ahead(rows, "ts", ["host"], is_ahead, to_micros(NOON))
    assert [(key.key, key.ahead // SECOND) for key in keys] == [
        ((("host", "b"),), 20),
        ((("host", "a"),), 9),
        ((("host", None),), 3),
    ]
    assert {key.at for key in keys} == {to_micros(NOON)}


def test_few_keys_and_short_texts_are_remembered() -> None:
    rows = _rows([f"{number:03d}" + "ä" * 500 for number in range(300)], list(range(300)))
    keys = find_keys_ahead(rows, "ts", ["host", "n"], np.ones(300, dtype=bool), to_micros(NOON))
    assert len(keys) == MAX_KEYS
    assert keys[0].key == (("host", "299" + "ä" * 97), ("n", "299"))


def test_without_key_columns_there_is_one_key() -> None:
    rows = _rows(["a", "b"], [5, 20])
    (key,) = find_keys_ahead(rows, "ts", [], np.ones(2, dtype=bool), to_micros(NOON))
    assert (key.key, key.ahead) == ((), 20 * SECOND)
    assert find_keys_ahead(rows, "ts", [], np.zeros(2, dtype=bool), to_micros(NOON)) == []


def _key(host: str, ahead: int, at: int) -> KeyAhead:
    return KeyAhead((("host", host),), ahead, at)


def test_later_rows_of_a_key_replace_earlier_ones_and_old_ones_are_forgotten() -> None:
    earlier = [_key("a", 50, 2 * HOUR), _key("b", 40, HOUR), _key("c", 30, 2 * HOUR)]
    later = [_key("a", 10, 2 * HOUR + 1), _key("d", 20, 2 * HOUR + 1)]
    merged = merge_keys_ahead(earlier, later)
    assert [(key.key[0][1], key.ahead) for key in merged] == [("c", 30), ("d", 20), ("a", 10)]


def test_the_furthest_keys_stay() -> None:
    keys = [_key(f"h{number}", number, HOUR) for number in range(30)]
    merged = merge_keys_ahead(keys[:20], keys[20:])
    assert [key.ahead for key in merged] == list(range(29, 19, -1))
    assert merge_keys_ahead([], []) == []
