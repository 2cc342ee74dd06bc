"""Rows as the archiver appends them, with their identities."""

from datetime import timedelta

import numpy as np
import pyarrow as pa

from archiver.delta import StreamSchema, fingerprint

ROW_INTERVAL = 1_000
"""Microseconds of event time from row to row: row number n happens at n milliseconds."""
_COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "v": "double"}
SCHEMA = StreamSchema("past", _COLUMNS, "ts", ("host", "n"), ("host",), timedelta(0), timedelta(0))


def archived_rows(first: int, count: int, chunk: int, hosts: int) -> pa.Table:
    """Some rows of a chunk, from a number on, each of one of so many hosts."""
    rng = np.random.default_rng(first)
    numbers = np.arange(first, first + count)
    rows = pa.table(
        {
            "ts": pa.array(numbers * ROW_INTERVAL, pa.timestamp("us", tz="UTC")),
            "host": pa.array([f"h{n}" for n in rng.integers(0, hosts, count)]),
            "n": pa.array(numbers),
            "v": pa.array(np.round(rng.uniform(0, 100, count), 2)),
            "_extra": pa.nulls(count, pa.string()),
        }
    )
    ids, hashes = fingerprint(SCHEMA, rows)
    added = {
        "_late": pa.array(np.zeros(count, dtype=bool)),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.array(np.full(count, first)),
        "_line": pa.array(np.arange(count)),
        "chunk": pa.array(np.full(count, chunk, dtype=np.int32)),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows.select([name for name in SCHEMA.arrow_schema().names if name in rows.column_names])
