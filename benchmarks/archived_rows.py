"""Rows of a stream in the form in which the archiver appends them, with their identities."""

from datetime import timedelta

import numpy as np
import pyarrow as pa

from archiver.delta import StreamSchema, fingerprint

ROW_INTERVAL = 1_000  # microseconds of event time between rows: row n is n milliseconds after 0
SCHEMA = StreamSchema(
    name="past",
    columns={"ts": "timestamp", "host": "string", "n": "bigint", "v": "double"},
    time="ts",
    id=("host", "n"),
    key=("host",),
    lateness=timedelta(0),
    future=timedelta(0),
)


def archived_rows(first: int, count: int, *, chunk: int, hosts: int) -> pa.Table:
    """Rows number `first` to `first + count - 1`, each of a random host out of `hosts`."""
    rng = np.random.default_rng(first)
    numbers = np.arange(first, first + count)
    host_names = pa.array(list(map("h{}".format, range(hosts))))
    rows = pa.table(
        {
            "ts": pa.array(numbers * ROW_INTERVAL, pa.timestamp("us", tz="UTC")),
            "host": host_names.take(pa.array(rng.integers(0, hosts, count))),
            "n": pa.array(numbers),
            "v": pa.array(np.round(rng.uniform(0, 100, count), 2)),
            "_extra": pa.nulls(count, pa.string()),
        }
    )
    ids, hashes = fingerprint(SCHEMA, rows)
    system_columns = {
        "_late": pa.array(np.zeros(count, dtype=bool)),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.array(np.full(count, first)),
        "_line": pa.array(np.arange(count)),
        "chunk": pa.array(np.full(count, chunk, dtype=np.int32)),
    }
    for name, values in system_columns.items():
        rows = rows.append_column(name, values)
    return rows.select([name for name in SCHEMA.arrow_schema().names if name in rows.column_names])
