"""The keys whose rows are furthest ahead of the clock, in bounded memory. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from archiver.ingest.classify import Mask
from archiver.times import Micros, micros_column

MAX_KEYS = 10
"""Keys that are remembered of a stream."""

_MAX_TEXT = 100  # characters of a value of a key
_MAX_AGE = 3_600_000_000  # microseconds by the clock since rows of a key were last ahead


@dataclass(frozen=True)
class KeyAhead:
    """A key with rows ahead of the clock.

    `key`: the key columns with their values as text, cut after 100 characters; None: NULL. `ahead`:
    how far its newest row was ahead when it was read; `at`: the clock then. Both in microseconds.
    """

    key: tuple[tuple[str, str | None], ...]
    ahead: Micros
    at: Micros


def find_keys_ahead(
    rows: pa.Table, time: str, key: Sequence[str], is_ahead: Mask, clock: Micros
) -> list[KeyAhead]:
    """The keys of the rows that are furthest ahead, at most `MAX_KEYS`.

    `time`: the column of event times. Without `key` columns there is one key.
    """
    if not is_ahead.any():
        return []
    rows_ahead = rows.filter(pa.array(is_ahead))
    ahead = micros_column(rows_ahead, time) - clock
    columns = [_as_text(rows_ahead[name]) for name in key]
    names = [f"key{number}" for number in range(len(columns))]
    table = pa.table([*columns, pa.array(ahead)], names=[*names, "ahead"])
    groups = table.group_by(names).aggregate([("ahead", "max")])
    by_key = [(name, "ascending") for name in names]
    furthest = groups.sort_by([("ahead_max", "descending"), *by_key]).slice(0, MAX_KEYS)
    keys_ahead: list[KeyAhead] = []
    for row in furthest.to_pylist():
        values = [row[name] for name in names]
        keys_ahead.append(KeyAhead(tuple(zip(key, values, strict=True)), row["ahead_max"], clock))
    return keys_ahead


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_slice_codeunits(pc.cast(column, pa.string()), 0, _MAX_TEXT)


def merge_keys_ahead(earlier: Iterable[KeyAhead], later: Iterable[KeyAhead]) -> list[KeyAhead]:
    """The furthest keys of both, the furthest first.

    Of a key in both, the later clock counts, then the furthest row. Keys without rows ahead for an
    hour before the latest one are left out.
    """
    by_key: dict[tuple[tuple[str, str | None], ...], KeyAhead] = {}
    for key in sorted([*earlier, *later], key=attrgetter("at", "ahead")):
        by_key[key.key] = key
    newest = max((key.at for key in by_key.values()), default=0)
    current = [key for key in by_key.values() if key.at > newest - _MAX_AGE]
    return sorted(current, key=_order)[:MAX_KEYS]


def _order(key: KeyAhead) -> tuple[Micros, str]:
    return -key.ahead, str(key.key)
