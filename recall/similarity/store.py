"""Indexes on disk, so that a process does not read the whole corpus again when it starts.

Each rule version and choice of contexts has a folder. Each segment is an Arrow IPC file of one row,
in which each array is a list; it is written once and memory-mapped. `manifest.json` names the files
that make up the corpus up to a sequence number, with their sizes and checksums, and is replaced
atomically. An index that is missing, damaged or of another format is rebuilt from the archive.
"""

import ctypes
import hashlib
import mmap
import os
import shutil
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import orjson
import pyarrow as pa

from recall.similarity.index import Index
from recall.similarity.segments import ARRAYS, BOUNDS, Segment, SegmentFile, StoredArrays

_FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
# Age after which a file that no manifest names is removed; a younger one may still be added.
_UNREFERENCED_TIMEOUT = 3600.0  # seconds
# Age of the last use after which an index is removed. It is rebuilt if it is needed again.
_UNUSED_TIMEOUT = 7 * 86_400.0  # seconds
_CHECKSUM_BLOCK = 1 << 20  # bytes
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class IndexStore:
    """The folder of one corpus."""

    path: Path

    @classmethod
    def for_corpus(cls, root: Path, rule: str, version: str, settings: Any) -> "IndexStore":
        """The store of a rule version under `root`.

        `settings`: which contexts are compared and how, as JSON.
        """
        name = hashlib.blake2b(orjson.dumps([rule, version, settings]), digest_size=12).hexdigest()
        return cls(root / name)

    def load(
        self,
        numeric: Mapping[str, float | None] | None = None,
        held_chunks: Collection[int] | None = None,
    ) -> Index | None:
        """The index as last saved; None if it is missing, damaged or of another format.

        `numeric`: see `Index`. `held_chunks`: see `Index.hold`.
        """
        try:
            manifest = self._read_manifest()
            if manifest is None:
                return None
            index = Index(numeric)
            index.hold(held_chunks, self.open_stored)
            for name, size, checksum in manifest["segments"]:
                segment = _read_segment(self.path / name, size, checksum, index)
                index.add_segment(segment)
                index.release(segment)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return None
        return index

    def open_stored(self, segment: Segment) -> StoredArrays | None:
        """Map the file of a segment; None: it has none, or its file is gone or damaged."""
        if segment.file is None:
            return None
        try:
            return _map_file(self.path, segment.file).stored
        except (OSError, ValueError, KeyError, pa.ArrowException):
            return None

    def last_sequence(self) -> int | None:
        """The sequence number of the newest saved event; None: there is no readable manifest."""
        return self._read_manifest_number("number")

    def complete_sequence(self) -> int | None:
        """The sequence number up to which all events of the corpus are saved; None: unknown."""
        return self._read_manifest_number("complete")

    def _read_manifest_number(self, key: str) -> int | None:
        try:
            manifest = self._read_manifest()
            if manifest is None:
                return None
            return int(manifest[key])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _read_manifest(self) -> dict[str, Any] | None:
        """None if the format is another. Raises what reading and parsing raise."""
        manifest: dict[str, Any] = orjson.loads((self.path / _MANIFEST).read_bytes())
        if manifest["format"] != _FORMAT_VERSION:
            return None
        return manifest

    def save(self, index: Index, complete_sequence: int, now: float) -> None:
        """Write new segments with current bounds, then the manifest; then remove other files.

        `complete_sequence`: see the method of that name. `now`: seconds since the epoch.
        """
        files = self.write_segments(index)
        manifest = {
            "format": _FORMAT_VERSION,
            "number": index.last_sequence,
            "complete": complete_sequence,
            "segments": list(map(tuple, files)),
        }
        _write_atomically(self.path / _MANIFEST, orjson.dumps(manifest))
        referenced = {_MANIFEST, *(file.name for file in files)}
        for path in self.path.iterdir():
            with suppress(OSError):
                age = now - path.stat().st_mtime
                if path.name not in referenced and age > _UNREFERENCED_TIMEOUT:
                    path.unlink()

    def write_segments(self, index: Index) -> list[SegmentFile]:
        """Write new segments with current bounds; returns the files of all segments.

        Without a manifest that names them, they are no part of the stored index.
        """
        index.refresh_bounds()
        self.path.mkdir(parents=True, exist_ok=True)
        files = []
        for segment in index.segments:
            if segment.file is None or not (self.path / segment.file.name).exists():
                segment.file = _write_segment(self.path, segment, index)
                segment.stored = None
            files.append(segment.file)
        return files

    def touch(self, now: float) -> None:
        """Record that the index is in use. `now`: seconds since the epoch."""
        with suppress(FileNotFoundError):
            os.utime(self.path / _MANIFEST, (now, now))

    @staticmethod
    def remove_unused(root: Path, now: float) -> None:
        """Remove the indexes under `root` that were not used for a week.

        These are for example the corpora of earlier versions of rules. `now`: seconds since the
        epoch.
        """
        if not root.is_dir():
            return
        for folder in root.iterdir():
            last_used = folder / _MANIFEST
            if not last_used.exists():
                last_used = folder
            if now - last_used.stat().st_mtime > _UNUSED_TIMEOUT:
                shutil.rmtree(folder, ignore_errors=True)


def _write_segment(folder: Path, segment: Segment, index: Index) -> SegmentFile:
    """Write a segment to a new file."""
    arrays: dict[str, Any] = {name: segment.arrays[name] for name in (*ARRAYS, *BOUNDS)}
    arrays["eids"] = arrays["eids"].view(np.uint8)
    columns = {}
    for name, array in arrays.items():
        columns[name] = _single_row_list(pa.array(array))
    words = index.vocabulary.decode_terms(segment.term_ids.tolist())
    columns["words"] = _single_row_list(pa.array(words, pa.large_string()))
    description = {
        "chunk": segment.chunk,
        "level": segment.log_event_count,
        "width": segment.arrays["eids"].dtype.itemsize,
    }
    batch = pa.record_batch(columns)
    batch = batch.replace_schema_metadata({"segment": orjson.dumps(description)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue()
    name = f"{segment.chunk}-{uuid4().hex}.arrow"
    _write_atomically(folder / name, data)
    return SegmentFile(name, data.size, zlib.crc32(data))


def _single_row_list(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _read_segment(path: Path, size: int, checksum: int, index: Index) -> Segment:
    """Read a segment through a memory map. Raises `ValueError` if the file is damaged."""
    file = SegmentFile(path.name, size, checksum)
    mapped = _map_file(path.parent, file, verify=True)
    term_ids = index.vocabulary.encode_terms(mapped.words.to_pylist())
    stored = mapped.stored
    segment = Segment(mapped.chunk, stored.arrays, term_ids, stored.log_event_count)
    segment.file = file
    segment.stored = stored
    return segment


class _MappedFile(NamedTuple):
    """A file of a segment. `words`: its terms, in their order."""

    data: pa.Buffer
    chunk: int
    words: pa.Array
    stored: StoredArrays


def _map_file(folder: Path, file: SegmentFile, verify: bool = False) -> _MappedFile:
    """`verify`: read all of it and compare its checksum. Raises `ValueError` if it is damaged."""
    source = pa.memory_map(str(folder / file.name))
    data = source.read_buffer()
    if data.size != file.size or (verify and _compute_checksum(data) != file.checksum):
        raise ValueError(f"{folder / file.name}: size or checksum differs from the manifest")
    batch = pa.ipc.open_file(source).get_batch(0)
    description: Mapping[str, Any] = orjson.loads(batch.schema.metadata[b"segment"])
    arrays = {}
    for name in batch.schema.names:
        if name != "words":
            arrays[name] = batch.column(name).values.to_numpy(zero_copy_only=True)
    arrays["eids"] = arrays["eids"].view(f"S{description['width']}")
    stored = StoredArrays(arrays, description["level"], partial(_drop_pages, data))
    return _MappedFile(data, description["chunk"], batch.column("words").values, stored)


def _drop_pages(data: pa.Buffer) -> None:
    """Give back the memory of the pages of a mapped file; they are read again when needed."""
    first = data.address // mmap.PAGESIZE * mmap.PAGESIZE
    size = data.address + data.size - first
    _LIBC.madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def _compute_checksum(data: pa.Buffer) -> int:
    """CRC-32, block by block."""
    checksum = 0
    view = memoryview(data)
    for first in range(0, len(view), _CHECKSUM_BLOCK):
        checksum = zlib.crc32(view[first : first + _CHECKSUM_BLOCK], checksum)
    return checksum


def _write_atomically(path: Path, data: Any) -> None:
    """Write all of a file or nothing, also in case of a power failure."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
