"""Row identities, and an index of them for each chunk that finds the row a new one repeats.

A row keeps the identity and the hash that it got under the declaration of its stream then.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.schema import StreamSchema

Array = npt.NDArray[Any]

_ID_BYTES = 16
_HASH_BYTES = 8
_PLACE_BYTES = _ID_BYTES - _HASH_BYTES
NO_LINE = -1  # in index entries of rows whose line is not needed any more
# 64-bit offsets: the joined texts of a whole chunk may exceed two gigabytes.
_LARGE_STRING = pa.large_string()
ENTRY_DTYPE = np.dtype([("id", f"S{_ID_BYTES}"), ("hash", "i8"), ("unit", "i8"), ("line", "i8")])
# Runs of similar size are merged when there are so many. Look-ups then search few runs, and each
# row is merged a few times only.
_RUNS_TO_MERGE = 4


def fingerprint(
    schema: StreamSchema, table: pa.Table, place_keys: Sequence[bytes] = ()
) -> tuple[list[bytes], Array]:
    """Compute identity (16 bytes) and content hash (`int64`) of each row.

    The content is the declared columns and `_extra`. The identity is made of the id columns and
    the time; without id columns, of the content without the measured columns or, if the schema says
    so, of `place_keys` (see `row_places`) and the content: another record at the same place of a
    rewritten file is another row. Values are encoded column by column, at a third of the cost of
    encoding row by row.
    """
    encoded = {name: _encode_column(table[name]) for name in (*schema.columns, "_extra")}
    content = _join_columns(list(encoded.values()))
    hashes = np.frombuffer(b"".join(_digests(content, _HASH_BYTES)), dtype="i8")
    if schema.is_identified_by_place:
        return identify_places(_digests(place_keys, _PLACE_BYTES), hashes), hashes
    if schema.id is None and not schema.measured:
        return _digests(content, _ID_BYTES), hashes
    return _digests(_join_columns([encoded[name] for name in identity_columns(schema)])), hashes


def identify(schema: StreamSchema, table: pa.Table) -> list[bytes]:
    """The identities alone, of rows that are not identified by their place.

    `table`: with the columns of `identity_columns`.
    """
    return _digests(
        _join_columns([_encode_column(table[name]) for name in identity_columns(schema)])
    )


def identity_columns(schema: StreamSchema) -> list[str]:
    """The columns that identify a row, in the order in which they are hashed."""
    if schema.id is not None:
        return sorted({*schema.id, schema.time})
    return [name for name in (*schema.columns, "_extra") if name not in schema.measured]


def identify_places(place_ids: Sequence[bytes], hashes: Array) -> list[bytes]:
    """The identities of rows at some places, by their content.

    `place_ids`: identities of rows there, or what these begin with.
    """
    contents = hashes.tobytes()
    return [
        place_id[:_PLACE_BYTES].ljust(_PLACE_BYTES, b"\0") + contents[start : start + _HASH_BYTES]
        for place_id, start in zip(place_ids, range(0, len(contents), _HASH_BYTES), strict=True)
    ]


def row_places(schema: StreamSchema, unit: str, line_numbers: Array) -> Sequence[bytes]:
    """The places of records in a unit, if rows are identified by them; else none."""
    if not schema.is_identified_by_place:
        return ()
    prefix = f"{len(unit)}:{unit}:".encode("utf-8", "surrogatepass")
    return [b"%b%d" % (prefix, number) for number in line_numbers.tolist()]


def add_archive_columns(
    rows: pa.Table,
    ids: Sequence[bytes],
    hashes: Array,
    is_late: Array,
    *,
    units: Array,
    line_numbers: Array,
    chunk_ids: Array,
) -> pa.Table:
    """Rows of a stream with the columns that the archive adds, but for `_append`."""
    columns = {
        "_late": pa.array(is_late),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(hashes),
        "_unit": pa.array(units),
        "_line": pa.array(line_numbers),
        "chunk": pa.array(chunk_ids, pa.int32()),
    }
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


def _encode_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Encode values as texts such that joined with commas they differ exactly if the values do.

    Null becomes an empty text. Texts follow their length in bytes. Times are whole microseconds,
    dates whole days; numbers have no comma and at least one digit or letter.
    """
    arrow_type = column.type
    if pa.types.is_timestamp(arrow_type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(arrow_type):
        column = column.cast(pa.int32())
    text = column.cast(_LARGE_STRING)
    if not (pa.types.is_primitive(arrow_type) or pa.types.is_null(arrow_type)):
        text = pc.binary_join_element_wise(
            pc.binary_length(text).cast(_LARGE_STRING), text, pa.scalar(":", _LARGE_STRING)
        )
    return pc.fill_null(text, "")


def _join_columns(columns: list[pa.ChunkedArray]) -> list[bytes]:
    """Join the texts of each row."""
    joined = pc.binary_join_element_wise(*columns, pa.scalar(",", _LARGE_STRING))
    rows: list[bytes] = joined.cast(pa.large_binary()).to_pylist()
    return rows


def build_entries(ids: list[bytes], hashes: Array, units: Array, lines: Array) -> Array:
    """Build index entries (`ENTRY_DTYPE`) of rows.

    `S16` ignores trailing zero bytes when comparing; this is exact, as all ids have 16 bytes.
    """
    entries = np.empty(len(ids), dtype=ENTRY_DTYPE)
    entries["id"] = np.frombuffer(b"".join(ids), dtype=f"S{_ID_BYTES}")
    entries["hash"] = hashes
    entries["unit"] = units
    entries["line"] = lines
    return entries


def _digests(contents: Sequence[bytes], size: int = _ID_BYTES) -> list[bytes]:
    return [blake2b(content, digest_size=size).digest() for content in contents]


class _Run(NamedTuple):
    """Entries sorted by id, and their ids as a contiguous array."""

    ids: Array
    entries: Array


def _sort_run(entries: Array) -> _Run:
    ordered = entries[np.argsort(entries["id"], kind="stable")]
    return _Run(np.ascontiguousarray(ordered["id"]), ordered)


@dataclass
class ChunkIndex:
    """The identities of one chunk of one stream, as a few sorted runs of index entries."""

    runs: list[_Run] = field(default_factory=list)

    def add(self, entries: Array) -> None:
        """Add entries of rows that are not in the index."""
        if len(entries):
            self.runs.append(_sort_run(entries))
        while self._should_merge():
            newest = np.concatenate([run.entries for run in self.runs[-_RUNS_TO_MERGE:]])
            self.runs[-_RUNS_TO_MERGE:] = [_sort_run(newest)]

    def _should_merge(self) -> bool:
        """Whether the newest runs are many, and of similar size."""
        if len(self.runs) < _RUNS_TO_MERGE:
            return False
        largest, smallest = self.runs[-_RUNS_TO_MERGE], self.runs[-1]
        return len(largest.ids) <= 2 * _RUNS_TO_MERGE * len(smallest.ids)

    def find(self, ids: Array) -> tuple[Array, Array]:
        """Return a mask of the ids that are in the index, and their entries (zeros elsewhere)."""
        is_indexed = np.zeros(len(ids), dtype=bool)
        entries = np.zeros(len(ids), dtype=ENTRY_DTYPE)
        # Sorted look-ups are near each other in memory and use the processor's cache.
        order = np.argsort(ids, kind="stable")
        sorted_ids = np.ascontiguousarray(ids[order])
        for run in self.runs:
            positions = np.searchsorted(run.ids, sorted_ids)
            in_range = np.flatnonzero(positions < len(run.ids))
            matches = in_range[run.ids[positions[in_range]] == sorted_ids[in_range]]
            entries[order[matches]] = run.entries[positions[matches]]
            is_indexed[order[matches]] = True
        return is_indexed, entries

    def find_among(self, ids: Array, candidates: Array) -> tuple[Array, Array]:
        """The candidates whose id is in the index, and their entries.

        `candidates`: positions in `ids`.
        """
        is_indexed, entries = self.find(ids[candidates])
        return candidates[is_indexed], entries[is_indexed]

    def __len__(self) -> int:
        return sum(len(run.entries) for run in self.runs)


class IdentityIndex:
    """The indexes of a stream's chunks, loaded on demand; the least recently used are evicted.

    `load` returns the entries of a chunk from the archive, by declaration (see
    `StreamSchema.declaration_numbers`). Each row takes 56 bytes of memory; at most `max_rows` rows
    are in memory, but always one chunk.
    """

    def __init__(self, load: Callable[[int], Mapping[int, Array]], max_rows: int) -> None:
        self._load = load
        self._max_rows = max_rows
        self._chunks: OrderedDict[int, defaultdict[int, ChunkIndex]] = OrderedDict()
        # By chunk in memory: files that were added since it was loaded.
        self._added_files: dict[int, set[str]] = {}

    def for_chunk(self, chunk: int) -> defaultdict[int, ChunkIndex]:
        """Return the indexes of a chunk by declaration, with all rows archived so far."""
        indexes = self._chunks.get(chunk)
        if indexes is None:
            indexes = self._chunks[chunk] = defaultdict(ChunkIndex)
            for declaration, entries in self._load(chunk).items():
                indexes[declaration].add(entries)
            self._evict()
        self._chunks.move_to_end(chunk)
        return indexes

    def __contains__(self, chunk: int) -> bool:
        return chunk in self._chunks

    def forget(self, chunk: int) -> None:
        """Drop the index of a chunk, to be loaded again when it is needed."""
        self._chunks.pop(chunk, None)
        self._added_files.pop(chunk, None)

    def add_file(self, chunk: int, path: str) -> None:
        """Note that the rows of a file were added to the indexes of a chunk."""
        self._added_files.setdefault(chunk, set()).add(path)

    def contains_file(self, chunk: int, path: str) -> bool:
        """Whether the rows of a file were added since the chunk was loaded."""
        return path in self._added_files.get(chunk, ())

    def _evict(self) -> None:
        while len(self._chunks) > 1 and self._count_rows() > self._max_rows:
            self.forget(next(iter(self._chunks)))

    def _count_rows(self) -> int:
        return sum(len(index) for indexes in self._chunks.values() for index in indexes.values())
