"""Identities of rows under the declarations that they were archived under."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from archiver.delta.data_files.identities import compute_identities
from archiver.delta.identity import fingerprint
from archiver.delta.schema import EarlierDeclaration, StreamSchema

NONE = timedelta(0)
FIRST = StreamSchema("s", {"ts": "timestamp", "v": "bigint"}, "ts", None, (), NONE, NONE)
SECOND = replace(
    FIRST,
    columns={"ts": "timestamp", "v": "double", "host": "string"},
    earlier=(EarlierDeclaration(FIRST, 2),),
)


def stored(values: pa.Array, appends: list[int | None], **columns: pa.Array) -> pa.Table:
    """Rows as a file stores them."""
    times = pa.array(range(len(values)), pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "ts": times,
            "v": values,
            "_extra": pa.nulls(len(values), pa.string()),
            "_append": pa.array(appends, pa.int64()),
            **columns,
        }
    )


def hashes_of(schema: StreamSchema, rows: pa.Table) -> list[int]:
    return fingerprint(schema, rows)[1].tolist()


def test_each_row_is_identified_as_its_declaration_read_it() -> None:
    rows = stored(pa.array([1, 2, 3, 4]), [1, 2, 3, None])
    hashes = compute_identities(SECOND, rows)["_hash"].to_pylist()
    as_first = hashes_of(FIRST, rows)
    with_host = rows.append_column("host", pa.nulls(4, pa.string()))
    doubles = with_host.set_column(1, "v", rows["v"].cast(pa.float64()))
    # Without a number it was archived before appends were counted.
    assert hashes == [as_first[0], as_first[1], hashes_of(SECOND, doubles)[2], as_first[3]]


def test_stored_identities_stay() -> None:
    """Files whose values were rewritten for another declaration store the identities of before."""
    rows = stored(
        pa.array([1.0, 2.0]),
        [1, 1],
        _id=pa.array([b"stored", None], pa.binary()),
        _hash=pa.array([7, None], pa.int64()),
    )
    identities = compute_identities(SECOND, rows)
    integers = stored(pa.array([1, 2]), [1, 1])
    ids, hashes = fingerprint(FIRST, integers)
    assert identities["_id"].to_pylist() == [b"stored", ids[1]]
    assert identities["_hash"].to_pylist() == [7, hashes.tolist()[1]]


def test_views_of_texts_are_read() -> None:
    """Other programs write them."""
    rows = stored(
        pa.array([1, 2]),
        [1, 3],
        host=pa.array(["a", "b"], pa.string_view()),
        _id=pa.array([None, None], pa.binary_view()),
    )
    texts = rows.set_column(4, "host", rows["host"].cast(pa.string()))
    assert compute_identities(SECOND, rows) == compute_identities(SECOND, texts)
