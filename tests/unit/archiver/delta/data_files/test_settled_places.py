"""Lines that no one needs any more."""

import pyarrow as pa

from archiver.delta.data_files.settled_places import NOTHING_SETTLED, SettledPlaces

ROWS = pa.table(
    {
        "_unit": pa.array([1, 1, 2, None]),
        "_line": [10, 11, 12, 13],
        "_append": pa.array([3, 4, 3, None]),
    }
)


def lines(places: SettledPlaces) -> list[int | None]:
    found: list[int | None] = places.forget_lines(ROWS)["_line"].to_pylist()
    return found


def test_lines_of_later_appends_and_of_open_units_stay() -> None:
    assert lines(SettledPlaces(3)) == [None, 11, None, None]
    assert lines(SettledPlaces(4, frozenset({2}))) == [None, None, 12, None]


def test_nothing_is_settled_without_a_ledger() -> None:
    assert lines(NOTHING_SETTLED) == [10, 11, 12, 13]
