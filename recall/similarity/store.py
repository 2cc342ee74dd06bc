"""Segments on disk, so that a process that starts does not read the whole corpus again.

A folder for each rule's version and choice of contexts. Each segment is an Arrow IPC file of one row, each array a
list; it is written once and read through the memory map. `manifest.json` names the files that are the corpus up to a
number, with their sizes and checksums, and is replaced by renaming. Whatever is missing, damaged or of another format
is no index: it is made again from the archive.
"""

import hashlib
import os
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import orjson
import pyarrow as pa

from recall.similarity.index import Index
from recall.similarity.segment import ARRAYS, BOUNDS, Segment

_FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
# Seconds for which a file that no manifest names may still be on its way into one.
_WRITE_GRACE = 3600.0
# Seconds after which an index that nobody uses goes; should somebody ask after all, it is made again.
_UNUSED_AFTER = 7 * 86_400.0
_CHECKSUM_BLOCK = 1 << 20


@dataclass(frozen=True)
class IndexStore:
    """The folder of one corpus."""

    path: Path

    @classmethod
    def for_corpus(cls, root: Path, rule: str, version: str, settings: Any) -> "IndexStore":
        """Under `root`, by what the corpus is of; `choice`: which contexts, and how they are read."""
        name = hashlib.blake2b(orjson.dumps([rule, version, settings]), digest_size=12).hexdigest()
        return cls(root / name)

    def load(self, numeric: Mapping[str, float | None] | None = None) -> Index | None:
        """The index as it was last saved; None: there is none that can be used."""
        try:
            manifest = orjson.loads((self.path / _MANIFEST).read_bytes())
            if manifest["format"] != _FORMAT_VERSION:
                return None
            index = Index(numeric)
            for name, size, checksum in manifest["segments"]:
                index.add_segment(_read_segment(self.path / name, size, checksum, index))
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return None
        return index

    def last_sequence(self) -> int | None:
        """The number of the last event in what was last saved; None: nothing was, in this format."""
        return self._read_manifest("number")

    def complete_sequence(self) -> int | None:
        """The number up to which what was last saved has all events of the corpus; None: that is not known."""
        return self._read_manifest("complete")

    def _read_manifest(self, what: str) -> int | None:
        try:
            manifest = orjson.loads((self.path / _MANIFEST).read_bytes())
            return int(manifest[what]) if manifest["format"] == _FORMAT_VERSION else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, index: Index, complete_sequence: int, now: float) -> None:
        """Write the segments that are new, with what their terms promise, then say what belongs together, then forget
        the others. `complete`: see there; `now`: as of the files' own times."""
        index.refresh_bounds()
        self.path.mkdir(parents=True, exist_ok=True)
        for segment in index.segments:
            if segment.file is None or not (self.path / segment.file[0]).exists():
                segment.file = _write_segment(self.path, segment, index)
        files = [segment.file for segment in index.segments]
        manifest = {
            "format": _FORMAT_VERSION,
            "number": index.last_sequence,
            "complete": complete_sequence,
            "segments": files,
        }
        _write_atomically(self.path / _MANIFEST, orjson.dumps(manifest))
        named = {_MANIFEST, *(file[0] for file in files if file is not None)}
        for path in self.path.iterdir():
            with suppress(OSError):
                if path.name not in named and path.stat().st_mtime < now - _WRITE_GRACE:
                    path.unlink()

    def touch(self, now: float) -> None:
        """Somebody works with this index. `now`: as of the files' own times."""
        with suppress(FileNotFoundError):
            os.utime(self.path / _MANIFEST, (now, now))


def remove_unused(root: Path, now: float) -> None:
    """Remove what under a root has long not been used, such as the corpora of earlier versions of rules."""
    for folder in root.iterdir() if root.is_dir() else ():
        manifest = folder / _MANIFEST
        if now - (manifest if manifest.exists() else folder).stat().st_mtime > _UNUSED_AFTER:
            shutil.rmtree(folder, ignore_errors=True)


def _write_segment(folder: Path, segment: Segment, index: Index) -> tuple[str, int, int]:
    arrays: dict[str, Any] = {name: segment.arrays[name] for name in (*ARRAYS, *BOUNDS)}
    arrays["eids"] = arrays["eids"].view(np.uint8)
    lists = {name: _single_row_list(pa.array(array)) for name, array in arrays.items()}
    lists["words"] = _single_row_list(
        pa.array(index.vocabulary.decode_terms(segment.term_ids.tolist()), pa.large_string())
    )
    known = {
        "chunk": segment.chunk,
        "level": segment.log_event_count,
        "width": segment.arrays["eids"].dtype.itemsize,
    }
    batch = pa.record_batch(lists).replace_schema_metadata({"segment": orjson.dumps(known)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue()
    name = f"{segment.chunk}-{uuid4().hex}.arrow"
    _write_atomically(folder / name, data)
    return name, data.size, zlib.crc32(data)


def _single_row_list(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _read_segment(path: Path, size: int, checksum: int, index: Index) -> Segment:
    source = pa.memory_map(str(path))
    data = source.read_buffer()
    if data.size != size or _checksum(data) != checksum:
        raise ValueError(f"{path} is damaged")
    batch = pa.ipc.open_file(source).get_batch(0)
    known: Mapping[str, Any] = orjson.loads(batch.schema.metadata[b"segment"])
    columns = {name: batch.column(name).values for name in batch.schema.names}
    ids = index.vocabulary.encode_terms(columns.pop("words").to_pylist())
    arrays = {name: values.to_numpy(zero_copy_only=True) for name, values in columns.items()}
    arrays["eids"] = arrays["eids"].view(f"S{known['width']}")
    segment = Segment(known["chunk"], arrays, ids, known["level"])
    segment.file = path.name, size, checksum
    return segment


def _checksum(data: pa.Buffer) -> int:
    found = 0
    view = memoryview(data)
    for first in range(0, len(view), _CHECKSUM_BLOCK):
        found = zlib.crc32(view[first : first + _CHECKSUM_BLOCK], found)
    return found


def _write_atomically(path: Path, data: Any) -> None:
    """All of it or nothing, also when the machine falls."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
