"""Digests of data files: the commit that adds a file holds its SHA-256, as a tag of the file.

A changed byte may decode to another value; only the digest shows it. Of a stream's file the commit
also holds the digest of the identities of its rows (`archiver.delta.row_ids`), so that a backup
need not decode it, and how many of its bytes are not the user's columns. Files of other programs
and of earlier versions have none.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta.files import DataFile
from archiver.delta.row_ids import RowIds

_DIGEST_TAG = "moirae.sha256"
_IDS_TAG = "moirae.ids"
_PLACE_TAG = "moirae.place"


@dataclass(frozen=True)
class FileDigests:
    """What a log holds of its files, by path: digests, the identities of the rows, and the bytes
    that are not the user's columns.
    """

    files: Mapping[str, str]
    rows: Mapping[str, RowIds]
    place_bytes: Mapping[str, int]


def make_digest_tag(digest: str) -> dict[str, str]:
    """The tag of a file with its digest, in the commit that adds it."""
    return {_DIGEST_TAG: digest}


def make_tags(file: DataFile) -> dict[str, str]:
    """The tags of a file in the commit that adds it."""
    tags: dict[str, str] = {}
    if file.digest is not None:
        tags |= make_digest_tag(file.digest)
    if file.ids is not None:
        tags[_IDS_TAG] = file.ids
    if file.place_bytes is not None:
        tags[_PLACE_TAG] = str(file.place_bytes)
    return tags


def parse_row_ids(tags: Mapping[str, str] | None) -> str | None:
    """The identities of the rows of a file by its tags, see `RowIds.tag`; None: not recorded."""
    return (tags or {}).get(_IDS_TAG)


def compute_digest(path: Path) -> str:
    """The digest of a local file."""
    with path.open("rb") as file:
        return read_digest(file)


def read_digest(file: BinaryIO) -> str:
    """The digest of a file that is open for reading, from its start."""
    digest = hashlib.sha256()
    while content := file.read(1 << 20):
        digest.update(content)
    return digest.hexdigest()


def parse_digests(log_files: Mapping[str, bytes]) -> FileDigests:
    """The digests that the files of a log hold, by path of the data file.

    Raises `ValueError` and `pyarrow.ArrowException` for damaged ones.
    """
    files: dict[str, str] = {}
    rows: dict[str, RowIds] = {}
    place_bytes: dict[str, int] = {}
    for path, tags in _read_tags(log_files):
        if _DIGEST_TAG in tags:
            files[path] = tags[_DIGEST_TAG]
        if _IDS_TAG in tags:
            rows[path] = RowIds.parse_tag(tags[_IDS_TAG])
        if _PLACE_TAG in tags:
            place_bytes[path] = int(tags[_PLACE_TAG])
    return FileDigests(files, rows, place_bytes)


def _read_tags(log_files: Mapping[str, bytes]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name, content in log_files.items():
        if name.endswith(".json"):
            adds = _read_commit(content)
        elif name.endswith(".parquet"):
            adds = _read_checkpoint(content)
        else:
            continue
        for add in adds:
            yield unquote(add["path"]), dict(add.get("tags") or {})


def _read_commit(content: bytes) -> Iterator[dict[str, Any]]:
    for line in filter(bytes.strip, content.splitlines()):
        add = orjson.loads(line).get("add")
        if add is not None:
            yield add


def _read_checkpoint(content: bytes) -> Iterator[dict[str, Any]]:
    file = pq.ParquetFile(pa.BufferReader(content))
    fields = file.schema_arrow
    if "add" not in fields.names or fields.field("add").type.get_field_index("tags") < 0:
        return  # of another program
    adds: list[dict[str, Any] | None] = file.read(columns=["add.path", "add.tags"])[
        "add"
    ].to_pylist()
    for add in adds:
        if add is not None:
            yield add
