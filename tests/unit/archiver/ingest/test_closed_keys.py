"""Event time that is closed for single keys."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from archiver.ingest.closed_keys import drop_passed, flag_closed, merge_closed

_KEYS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["1", "2", None]))
_CLOSED = st.dictionaries(_KEYS, st.integers(-5, 5), max_size=5)


@given(_CLOSED, st.lists(st.tuples(_KEYS, st.integers(-6, 6)), max_size=20))
def test_rows_before_the_time_of_their_key_are_flagged(closed, rows) -> None:
    table = pa.table(
        {
            "n": pa.array([None if key[1] is None else int(key[1]) for key, _ in rows], pa.int64()),
            "host": pa.array([key[0] for key, _ in rows], pa.string()),
        }
    )
    ts = np.array([time for _, time in rows], dtype="i8")
    expected = [key in closed and time < closed[key] for key, time in rows]
    assert flag_closed(table, ("host", "n"), ts, closed).tolist() == expected


def test_the_latest_time_of_a_key_counts() -> None:
    assert merge_closed({("a",): 1, ("b",): 5}, {("a",): 2, ("b",): 4, (None,): 3}) == {
        ("a",): 2,
        ("b",): 5,
        (None,): 3,
    }


def test_times_that_the_watermark_has_reached_are_dropped() -> None:
    assert drop_passed({("a",): 1, ("b",): 2}, 1) == {("b",): 2}
    assert drop_passed({("a",): 1}, None) == {("a",): 1}
