"""Which archived row a new row repeats: identities, and an index of those in each chunk."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.schema import StreamSchema

Array = npt.NDArray[Any]

_ID_BYTES, _HASH_BYTES = 16, 8
_LARGE_STRING = pa.large_string()
ENTRY_DTYPE = np.dtype([("id", f"S{_ID_BYTES}"), ("hash", "i8"), ("unit", "i8"), ("line", "i8")])
# Runs of about one size are merged when there are so many: look-ups stay few, and each row is merged a few times only.
_RUNS_TO_MERGE = 4


def fingerprint(schema: StreamSchema, table: pa.Table) -> tuple[list[bytes], Array]:
    """Identity (16 bytes) and content hash (`int64`) of each row of the declared columns and `_extra`.

    The identity is made of the id columns and the time; without id columns, of the whole content. Values are written
    column by column, which costs a third of writing rows.
    """
    written = {name: _encode_column(table[name]) for name in (*schema.columns, "_extra")}
    content = _join_columns(list(written.values()))
    identities = (
        content
        if schema.id is None
        else _join_columns([written[n] for n in sorted({*schema.id, schema.time})])
    )
    hashes = np.frombuffer(b"".join([_digest(row, _HASH_BYTES) for row in content]), dtype="i8")
    return [_digest(row, _ID_BYTES) for row in identities], hashes


def _encode_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of one type as text that tells them apart, and where it ends: texts after their length; nothing is null.

    Times are whole microseconds, dates whole days; numbers have no comma and at least one digit or letter.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    text = column.cast(_LARGE_STRING)
    if not (pa.types.is_primitive(kind) or pa.types.is_null(kind)):
        text = pc.binary_join_element_wise(
            pc.binary_length(text).cast(_LARGE_STRING), text, pa.scalar(":", _LARGE_STRING)
        )
    return pc.fill_null(text, "")


def _join_columns(columns: list[pa.ChunkedArray]) -> list[bytes]:
    """The texts of each row, joined. Large texts: those of a whole chunk may exceed two gigabytes."""
    joined = pc.binary_join_element_wise(*columns, pa.scalar(",", _LARGE_STRING))
    rows: list[bytes] = joined.cast(pa.large_binary()).to_pylist()
    return rows


def build_entries(ids: list[bytes], hashes: Array, units: Array, lines: Array) -> Array:
    """Index entries of rows. `S16` compares without trailing zero bytes, which is exact as all ids are 16 long."""
    made = np.empty(len(ids), dtype=ENTRY_DTYPE)
    made["id"] = np.frombuffer(b"".join(ids), dtype=f"S{_ID_BYTES}")
    made["hash"], made["unit"], made["line"] = hashes, units, lines
    return made


def _sort_run(rows: Array) -> tuple[Array, Array]:
    ordered = rows[np.argsort(rows["id"], kind="stable")]
    return np.ascontiguousarray(ordered["id"]), ordered


def _digest(content: bytes, size: int) -> bytes:
    return blake2b(content, digest_size=size).digest()


@dataclass
class ChunkIndex:
    """The identities of one chunk of one stream, as a few runs of `ENTRY` sorted by id, each with its ids by itself."""

    runs: list[tuple[Array, Array]] = field(default_factory=list)

    def add(self, entries: Array) -> None:
        """Add rows that are not in the index."""
        if len(entries):
            self.runs.append(_sort_run(entries))
        while len(self.runs) >= _RUNS_TO_MERGE and len(
            self.runs[-_RUNS_TO_MERGE][0]
        ) <= 2 * _RUNS_TO_MERGE * len(self.runs[-1][0]):
            self.runs[-_RUNS_TO_MERGE:] = [
                _sort_run(np.concatenate([rows for _, rows in self.runs[-_RUNS_TO_MERGE:]]))
            ]

    def find(self, ids: Array) -> tuple[Array, Array]:
        """For each id whether it is known, and its entry where it is."""
        known = np.zeros(len(ids), dtype=bool)
        entries = np.zeros(len(ids), dtype=ENTRY_DTYPE)
        order = np.argsort(
            ids, kind="stable"
        )  # look-ups side by side stay in the processor's cache
        wanted = np.ascontiguousarray(ids[order])
        for held, rows in self.runs:
            at = np.searchsorted(held, wanted)
            inside = np.flatnonzero(at < len(held))
            hit = inside[held[at[inside]] == wanted[inside]]
            entries[order[hit]] = rows[at[hit]]
            known[order[hit]] = True
        return known, entries

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.runs)


class IdentityIndex:
    """The indexes of a stream's chunks, loaded when first needed; the least recently used are forgotten.

    Memory is 56 bytes a row of the chunks held, at most `rows` rows and at least one chunk.
    """

    def __init__(self, load: Callable[[int], Array], max_rows: int) -> None:
        self._load = load
        self._max_rows = max_rows
        self._chunks: OrderedDict[int, ChunkIndex] = OrderedDict()

    def for_chunk(self, chunk: int) -> ChunkIndex:
        """The index of a chunk, complete for all rows archived so far."""
        index = self._chunks.get(chunk)
        if index is None:
            index = self._chunks[chunk] = ChunkIndex()
            index.add(self._load(chunk))
            self._evict()
        self._chunks.move_to_end(chunk)
        return index

    def _evict(self) -> None:
        while len(self._chunks) > 1 and sum(map(len, self._chunks.values())) > self._max_rows:
            self._chunks.popitem(last=False)
