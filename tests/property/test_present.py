"""What is in memory and what is read from files make the same rows, whatever fits and whatever happens to the files."""

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.delta.identity import fingerprint
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.read.reader import Reader

SCHEMA = StreamSchema(
    "s",
    {"ts": "timestamp", "host": "string", "n": "bigint"},
    "ts",
    ("n",),
    ("host",),
    timedelta(0),
    timedelta(0),
)


def made(first: int, count: int, chunk: int, start: int) -> pa.Table:
    """Rows numbered on from a number, half a second of event time each; some of them late."""
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
    added = {
        "_late": pa.array(numbers % 5 == 0),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.array(np.full(count, 1)),
        "_line": pa.array(numbers),
        "chunk": pa.array(np.full(count, chunk, dtype=np.int32)),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows


def seen(reader: Reader, low: int | None, high: int | None) -> Counter[int]:
    """The numbers of the rows of a span, from memory and files."""
    pinned = reader.snapshot("s", low, high)
    parts = [*pinned.rows, *(pq.ParquetFile(path).read() for path in pinned.lease_paths())]
    found: Counter[int] = Counter()
    for part in parts:
        ts = part["ts"].cast("int64").to_numpy()
        inside = (ts >= (low if low is not None else ts)) & (
            ts < (high if high is not None else ts + 1)
        )
        found.update(part["n"].to_numpy()[inside].tolist())
    return found


STEPS = st.lists(
    st.sampled_from(["append", "append", "append", "late", "close", "cluster", "follow", "forget"]),
    max_size=40,
)


@settings(max_examples=25)
@given(
    STEPS,
    st.sampled_from([0, 3_000, 1 << 20]),
    st.none() | st.integers(0, 2000),
    st.integers(0, 2000),
)
def test_memory_and_files_make_the_same_rows(
    steps: list[str], budget: int, low: int | None, more: int
) -> None:
    """Appends, late rows, roll-over, clustering and expiry in any order; nothing, some or all fits into memory."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        table = StreamTable(root, SCHEMA)
        reader, without = Reader(root, [SCHEMA], budget), Reader(root, [SCHEMA])
        present, at, chunks = {0}, 0, {0: 0}
        expected: dict[int, list[tuple[int, int]]] = {0: []}
        for number, step in enumerate(steps):
            chunk = max(present)
            if step == "append":
                table.append(made(number * 100, 30, chunk, at), number)
                expected[chunk] += [(number * 100 + i, (at + i) * 500_000) for i in range(30)]
                at += 30
            elif step == "late":
                chunk = min(expected)
                table.append(made(number * 100, 3, chunk, chunks[chunk]), number)
                expected[chunk] += [
                    (number * 100 + i, (chunks[chunk] + i) * 500_000) for i in range(3)
                ]
            elif step == "close":
                present = {chunk + 1}
                expected[chunk + 1], chunks[chunk + 1] = [], at
            elif step == "cluster":
                StreamTable(root, SCHEMA).cluster(min(expected))
            elif step == "forget" and len(expected) > 1:
                StreamTable(root, SCHEMA).delete_chunk(min(expected))
                del expected[min(expected)]
            elif step == "follow":
                reader.refresh_present(present)
            first = low if low is None else low * 50_000
            last = (first or 0) + more * 100_000
            rows = [
                n
                for held in expected.values()
                for n, ts in held
                if (first is None or ts >= first) and ts < last
            ]
            for one in (reader, without):
                one.refresh()
                one.snapshot("s", None, None)  # opens the table, which may have come only now
                assert seen(one, first, last) == Counter(rows)
        held = reader.snapshot("s", None, None).rows
        assert sum(rows.nbytes for rows in held) <= budget


def test_files_are_clustered_a_few_times_only(tmp_path: Path) -> None:
    """Identities come back when files are clustered; late files join a large one only when they are many."""
    table = StreamTable(tmp_path, SCHEMA)
    wanted = []
    for number in range(20):
        rows = made(number * 100, 50, 0, number * 50)
        wanted += list(
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
    table.cluster(0)
    assert (table.count_unclustered(0), table.files_by_chunk()[0].file_count) == (0, 1)
    rows = pq.ParquetFile(table.local_paths()[0]).read()
    assert sorted(
        zip(rows["n"].to_pylist(), rows["_id"].to_pylist(), rows["_hash"].to_pylist(), strict=True)
    ) == sorted(wanted)
    assert rows["host"].to_pylist() == sorted(rows["host"].to_pylist())
    (first,) = table.local_paths()
    table.append(made(9000, 5, 0, 10), 30)
    table.cluster(0)
    assert first in table.local_paths() and table.files_by_chunk()[0].file_count == 2
    table.append(made(9500, 300, 0, 10), 31)
    table.cluster(0)
    assert table.files_by_chunk()[0].file_count == 1 and table.files_by_chunk()[0].rows == 1305


def test_spans_are_exact_after_a_checkpoint_too(tmp_path: Path) -> None:
    """A file is not asked for by a microsecond after its newest row, whoever opens the table when."""
    table = StreamTable(tmp_path, SCHEMA)
    rows = made(0, 3, 0, 0).set_column(
        0, "ts", pa.array([5, 1_999_999, 2_000_001], pa.timestamp("us", tz="UTC"))
    )
    table.append(rows, 0)
    followed = StreamTable(tmp_path, SCHEMA)
    table.append(made(100, 2, 1, 100), 1)
    followed.refresh()
    DeltaTable(table.data_folder).create_checkpoint()
    for one in (table, followed, StreamTable(tmp_path, SCHEMA)):
        (file,) = one.data_files(chunk=0)
        assert (file.oldest, file.newest) == (5, 2_000_001)
        assert (
            not one.data_files(2_000_002, 3_000_000)
            and one.data_files(2_000_001, 3_000_000)
            and not one.data_files(None, 5)
        )
