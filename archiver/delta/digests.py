"""Digests of data files: the commit that adds a file holds its SHA-256, as a tag of the file.

A changed byte may decode to another value; only the digest shows it. Files of other programs and of
earlier versions have none.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

DIGEST_TAG = "moirae.sha256"


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


def parse_digests(log_files: Mapping[str, bytes]) -> dict[str, str]:
    """The digests that the files of a log hold, by path of the data file.

    Raises `ValueError` and `pyarrow.ArrowException` for damaged ones.
    """
    digests: dict[str, str] = {}
    for name, content in log_files.items():
        if name.endswith(".json"):
            digests.update(_parse_commit(content))
        elif name.endswith(".parquet"):
            digests.update(_parse_checkpoint(content))
    return digests


def _parse_commit(content: bytes) -> dict[str, str]:
    digests: dict[str, str] = {}
    for line in filter(bytes.strip, content.splitlines()):
        add = orjson.loads(line).get("add")
        if add is not None and DIGEST_TAG in (add.get("tags") or {}):
            digests[unquote(add["path"])] = add["tags"][DIGEST_TAG]
    return digests


def _parse_checkpoint(content: bytes) -> dict[str, str]:
    file = pq.ParquetFile(pa.BufferReader(content))
    fields = file.schema_arrow
    if "add" not in fields.names or fields.field("add").type.get_field_index("tags") < 0:
        return {}  # of another program
    digests: dict[str, str] = {}
    adds: list[dict[str, Any] | None] = file.read(columns=["add.path", "add.tags"])[
        "add"
    ].to_pylist()
    for add in adds:
        tags = dict((add or {}).get("tags") or {})
        if add is not None and DIGEST_TAG in tags:
            digests[unquote(add["path"])] = tags[DIGEST_TAG]
    return digests
