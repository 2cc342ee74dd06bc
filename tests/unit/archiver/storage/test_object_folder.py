"""Objects below a URL: listed at any depth, stored whole, deleted."""

import io
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from obstore.store import MemoryStore

from archiver.storage import ObjectFolder, objects


@pytest.fixture(autouse=True)
def store() -> Iterator[MemoryStore]:
    """A bucket in memory."""
    memory = MemoryStore()
    with patch.object(objects, "open_bucket", return_value=memory):
        yield memory


def test_objects_are_stored_listed_and_deleted() -> None:
    folder = ObjectFolder("s3://bucket/a/b")
    for name in ("y/2", "x/1", "x/3"):
        folder.put(name, io.BytesIO(name.encode()), 3)
    assert [(str(listed.path), listed.size) for listed in folder.list()] == [
        ("s3://bucket/a/b/x/1", 3),
        ("s3://bucket/a/b/x/3", 3),
        ("s3://bucket/a/b/y/2", 3),
    ]
    assert [listed.path.name for listed in folder.list("x")] == ["1", "3"]
    folder.delete("x/1")
    folder.delete("x/1")
    assert [listed.path.name for listed in folder.list("x")] == ["3"]


def test_folder_whose_name_begins_the_same_is_another_one() -> None:
    ObjectFolder("s3://bucket/ab").put("1", io.BytesIO(b""), 0)
    assert list(ObjectFolder("s3://bucket/a").list()) == []
