import gzip
import io
import pickle
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from obstore.store import MemoryStore

from archiver.errors import StorageFailed
from archiver.ingest.source_files import read_lines
from archiver.storage import objects
from archiver.storage.objects import ObjectGlob, ObjectPath

KEYS = (
    "in/a.jsonl",
    "in/b.jsonl.gz",
    "in/.c.jsonl",
    "in/_d.jsonl",
    "in/day=1/a.jsonl",
    "in/day=2/a.jsonl",
    "in/day=2/deep/a.jsonl",
    "other/a.jsonl",
)


@pytest.fixture
def store() -> Any:
    """A bucket in memory."""
    memory = MemoryStore()
    for key in KEYS:
        memory.put(key, b"1\n2\n")
    with patch.object(objects, "open_bucket", return_value=memory):
        yield memory


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("in/*.jsonl", ["in/_d.jsonl", "in/a.jsonl"]),
        ("in/*", ["in/_d.jsonl", "in/a.jsonl", "in/b.jsonl.gz"]),
        ("in/day=*/*.jsonl", ["in/day=1/a.jsonl", "in/day=2/a.jsonl"]),
        ("*/[a]*.jsonl", ["in/a.jsonl", "other/a.jsonl"]),
        ("in/a.jsonl", ["in/a.jsonl"]),
        ("none/*", []),
    ],
)
def test_glob_matches_objects_as_it_matches_files(
    store: MemoryStore, pattern: str, keys: list[str]
) -> None:
    found = ObjectGlob(f"s3://bucket/{pattern}").list()
    assert sorted(str(one.path) for one in found) == [f"s3://bucket/{key}" for key in keys]
    assert all(one.size == 4 and one.modified <= datetime.now(UTC) for one in found)


def test_object_is_read_like_a_file(store: MemoryStore) -> None:
    content = b"".join(b"%d\n" % number for number in range(10_000))
    store.put("in/b.jsonl.gz", gzip.compress(content))
    store.put("in/a.jsonl", content)
    path = pickle.loads(pickle.dumps(ObjectPath("s3://bucket/in/a.jsonl")))
    compressed = ObjectPath("s3://bucket/in/b.jsonl.gz")
    assert (path.name, path.suffix, compressed.suffix) == ("a.jsonl", ".jsonl", ".gz")
    lines = content.splitlines()
    assert list(read_lines(path)) == list(read_lines(compressed)) == lines
    with path.open() as file:
        file.seek(-5, io.SEEK_END)
        assert file.readline() == b"9999\n"
        assert file.tell() == len(content)


def test_missing_object_is_a_missing_file(store: MemoryStore) -> None:
    with pytest.raises(FileNotFoundError):
        ObjectPath("s3://bucket/in/none.jsonl").open()


def test_listing_that_fails_names_the_source() -> None:
    with (
        patch.object(objects, "open_bucket", side_effect=OSError("no route to host")),
        pytest.raises(StorageFailed, match=r"source s3://bucket/in/\*: no route to host"),
    ):
        ObjectGlob("s3://bucket/in/*").list()
