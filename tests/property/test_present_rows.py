"""Rows in memory and rows of files together are the archived rows, whatever the memory budget."""

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from archiver.delta.data_files.settled_places import SettledPlaces
from archiver.delta.identity import fingerprint
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from archiver.times import micros_column
from tests.examples import examples

# All source units were read to their end.
SETTLED = SettledPlaces(last_append=1_000)
SCHEMA = StreamSchema(
    "s",
    {"ts": "timestamp", "host": "string", "n": "bigint"},
    "ts",
    ("n",),
    ("host",),
    timedelta(0),
    timedelta(0),
)


def make_rows(first: int, count: int, chunk: int, start: int) -> pa.Table:
    """Rows numbered from `first`, half a second of event time each; every fifth is late."""
    numbers = np.arange(first, first + count)
    rows = pa.table(
        {
            "ts": pa.array((start + np.arange(count)) * 500_000, pa.timestamp("us", tz="UTC")),
            "host": pa.array([f"h{n % 3}" for n in numbers]),
            "n": pa.array(numbers),
            "_extra": pa.nulls(count, pa.string()),
        }
    )
    ids, hashes = fingerprint(SCHEMA, rows)
    archive_columns = {
        "_late": pa.array(numbers % 5 == 0),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.array(np.full(count, 1)),
        "_line": pa.array(numbers),
        "chunk": pa.array(np.full(count, chunk, dtype=np.int32)),
    }
    for name, values in archive_columns.items():
        rows = rows.append_column(name, values)
    return rows


def count_numbers(reader: Reader, time_range: TimeRange) -> Counter[int]:
    """The numbers of the rows in a range, from memory and files."""
    snapshot = reader.snapshot("s", time_range)
    parts = [*snapshot.rows, *(pq.ParquetFile(path).read() for path in snapshot.lease_paths())]
    numbers: Counter[int] = Counter()
    for part in parts:
        inside = time_range.mask(micros_column(part, "ts"))
        numbers.update(part["n"].to_numpy()[inside].tolist())
    return numbers


STEPS = st.lists(
    st.sampled_from(
        ["append", "append", "append", "late", "close", "cluster", "refresh", "delete"]
    ),
    max_size=40,
)


@examples(25)
@given(
    STEPS,
    st.sampled_from([0, 3_000, 1 << 20]),
    st.none() | st.integers(0, 2000),
    st.integers(0, 2000),
)
def test_memory_and_files_together_hold_the_archived_rows(
    steps: list[str], budget: int, low: int | None, length: int
) -> None:
    """Appends, late rows, new chunks, clustering and deletion in any order, with any budget."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        table = StreamTable(root, SCHEMA)
        reader, without_memory = Reader(root, [SCHEMA], budget), Reader(root, [SCHEMA])
        present, position, starts = {0}, 0, {0: 0}
        # Number and event time of the rows of each chunk.
        expected: dict[int, list[tuple[int, int]]] = {0: []}
        for number, step in enumerate(steps):
            chunk = max(present)
            if step == "append":
                table.append(make_rows(number * 100, 30, chunk, position), number)
                expected[chunk] += [(number * 100 + i, (position + i) * 500_000) for i in range(30)]
                position += 30
            elif step == "late":
                chunk = min(expected)
                table.append(make_rows(number * 100, 3, chunk, starts[chunk]), number)
                expected[chunk] += [
                    (number * 100 + i, (starts[chunk] + i) * 500_000) for i in range(3)
                ]
            elif step == "close":
                present = {chunk + 1}
                expected[chunk + 1], starts[chunk + 1] = [], position
            elif step == "cluster":
                StreamTable(root, SCHEMA).cluster(min(expected))
            elif step == "delete" and len(expected) > 1:
                StreamTable(root, SCHEMA).delete_chunk(min(expected))
                del expected[min(expected)]
            elif step == "refresh":
                reader.refresh_present(present)
            first = low if low is None else low * 50_000
            last = (first or 0) + length * 100_000
            numbers = [
                n
                for rows in expected.values()
                for n, ts in rows
                if (first is None or ts >= first) and ts < last
            ]
            for each in (reader, without_memory):
                each.refresh()
                each.snapshot("s")  # opens a table that was created since
                assert count_numbers(each, TimeRange(first, last)) == Counter(numbers)
        tables = reader.snapshot("s").rows
        assert sum(table.nbytes for table in tables) <= budget


def test_clustering_keeps_identities_and_rewrites_large_files_rarely(tmp_path: Path) -> None:
    """A large file is rewritten only together with many new rows."""
    table = StreamTable(tmp_path, SCHEMA)
    expected = []
    for number in range(20):
        rows = make_rows(number * 100, 50, 0, number * 50)
        expected += list(
            zip(
                rows["n"].to_pylist(),
                rows["_id"].to_pylist(),
                rows["_hash"].to_pylist(),
                strict=True,
            )
        )
        table.append(rows, number)
    assert table.count_unclustered(0) == 20
    assert "_id" not in pq.ParquetFile(table.local_paths()[0]).schema_arrow.names
    table.cluster(0, settled_places=SETTLED)
    assert (table.count_unclustered(0), table.files_by_chunk()[0].file_count) == (0, 1)
    (clustered,) = table.accounted_files(0)
    assert "_id" not in pq.ParquetFile(table.local_paths()[0]).schema_arrow.names
    rows = table.files.read(clustered.path, ["n", "host", "_id", "_hash"])
    assert sorted(
        zip(rows["n"].to_pylist(), rows["_id"].to_pylist(), rows["_hash"].to_pylist(), strict=True)
    ) == sorted(expected)
    assert rows["host"].to_pylist() == sorted(rows["host"].to_pylist())
    (first,) = table.local_paths()
    table.append(make_rows(9000, 5, 0, 10), 30)
    table.cluster(0, settled_places=SETTLED)
    assert first in table.local_paths() and table.files_by_chunk()[0].file_count == 2
    table.append(make_rows(9500, 300, 0, 10), 31)
    table.cluster(0, settled_places=SETTLED)
    assert table.files_by_chunk()[0].file_count == 1 and table.files_by_chunk()[0].rows == 1305


def test_file_bounds_are_exact_after_a_checkpoint(tmp_path: Path) -> None:
    """A range that starts 1 µs after the newest row of a file does not include the file."""
    table = StreamTable(tmp_path, SCHEMA)
    rows = make_rows(0, 3, 0, 0).set_column(
        0, "ts", pa.array([5, 1_999_999, 2_000_001], pa.timestamp("us", tz="UTC"))
    )
    table.append(rows, 0)
    refreshed = StreamTable(tmp_path, SCHEMA)
    table.append(make_rows(100, 2, 1, 100), 1)
    refreshed.refresh()
    DeltaTable(table.data_folder).create_checkpoint()
    for each in (table, refreshed, StreamTable(tmp_path, SCHEMA)):
        (file,) = each.data_files(chunk=0)
        assert (file.oldest, file.newest) == (5, 2_000_001)
        assert (
            not each.data_files(TimeRange(2_000_002, 3_000_000))
            and each.data_files(TimeRange(2_000_001, 3_000_000))
            and not each.data_files(TimeRange(None, 5))
        )
