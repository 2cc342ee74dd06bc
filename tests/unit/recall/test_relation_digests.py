"""Digests of what is valid at a time."""

from datetime import UTC, datetime

import pyarrow as pa

from recall.relation_digests import digest_valid_rows, has_read_valid_rows

TIME = pa.timestamp("us", tz="UTC")
LAST = datetime(9999, 12, 31, tzinfo=UTC)
Row = tuple[str, int, int | None]


def relation(*rows: Row) -> pa.Table:
    """Rows of a name, valid from and to a time in microseconds."""
    ends = [LAST if end is None else datetime.fromtimestamp(end / 1e6, UTC) for *_, end in rows]
    return pa.table(
        {
            "name": [name for name, *_ in rows],
            "key": pa.array(
                [[("k", name)] for name, *_ in rows], pa.map_(pa.string(), pa.string())
            ),
            "_valid_from": pa.array([start for _, start, _ in rows], TIME),
            "_valid_to": pa.array(ends, TIME),
        }
    )


def test_what_is_valid_at_a_time_decides() -> None:
    rows: list[Row] = [("a", 10, None), ("b", 20, 30)]
    before, first, second, third = digest_valid_rows(relation(*rows), [9, 10, 20, 30])
    assert before == 0 and third == first and len({before, first, second}) == 3
    assert digest_valid_rows(relation(*reversed(rows)), [20]) == [second]
    assert digest_valid_rows(relation(*rows, ("c", 21, None)), [20]) == [second]
    assert digest_valid_rows(relation(("a", 10, None), ("x", 20, 30)), [20]) != [second]
    assert digest_valid_rows(relation(), [20, 30]) == [0, 0]


def test_reads_are_compared_with_what_is_valid() -> None:
    table = relation(("a", 10, None))
    (digest,) = digest_valid_rows(table, [15])
    assert has_read_valid_rows([(0, 1, {"r": digest}), (1, 2, None)], "r", table, 15)
    assert not has_read_valid_rows([(0, 1, {"r": digest}), (1, 2, {"r": 0})], "r", table, 15)
    assert not has_read_valid_rows([(0, 1, {"cpu": 1})], "r", table, 15)
    assert not has_read_valid_rows([], "r", table, 15)
