"""Event time that a source has closed for single keys of a stream. No I/O.

A key is the values of the stream's key columns as text, in their order; None: NULL.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.ingest.classify import Array, Mask, latest
from archiver.times import Micros

Key = tuple[str | None, ...]

ClosedKeys = Mapping[Key, Micros]
"""By key, the event time before which no more of its rows were to come."""


def list_keys(rows: pa.Table, columns: Sequence[str]) -> list[Key]:
    """The key of each row."""
    texts = [pc.cast(rows[name], pa.string()).to_pylist() for name in columns]
    return list(zip(*texts, strict=True))


def flag_closed(rows: pa.Table, columns: Sequence[str], ts: Array, closed: ClosedKeys) -> Mask:
    """Mask of the rows, with event times `ts`, before the time that is closed for their key."""
    is_closed = ts < max(closed.values(), default=ts.dtype.type(0))
    if not closed or not is_closed.any():
        return np.zeros(len(ts), dtype=bool)
    positions = np.flatnonzero(is_closed)
    keys = list_keys(rows.select(list(columns)).take(pa.array(positions)), columns)
    for position, key in zip(positions.tolist(), keys, strict=True):
        is_closed[position] = key in closed and ts[position] < closed[key]
    return np.asarray(is_closed)


def merge_closed(earlier: ClosedKeys, later: ClosedKeys) -> dict[Key, Micros]:
    """The latest time of each key."""
    merged = dict(earlier)
    for key, closed in later.items():
        newest = latest(closed, merged.get(key))
        assert newest is not None
        merged[key] = newest
    return merged


def drop_passed(closed: ClosedKeys, watermark: Micros | None) -> dict[Key, Micros]:
    """Without the keys whose closed time the watermark has reached: older rows are late anyway."""
    if watermark is None:
        return dict(closed)
    return {key: ts for key, ts in closed.items() if ts > watermark}
