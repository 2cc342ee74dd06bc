from collections.abc import Sequence, Set
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest

from archiver.errors import StorageFailed
from archiver.storage import ObjectGlob, ObjectPath
from archiver.storage.objects import ListedObject
from moirae.config import FileSource
from moirae.errors import Unreachable
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.idle import UnreadFiles
from moirae.live.sources.queries.unread_objects import UnreadObjects

START = datetime(2026, 1, 1, tzinfo=UTC)
URL = "s3://bucket/in/"


class World:
    """A bucket, a ledger and a clock."""

    def __init__(self) -> None:
        self.objects: list[ListedObject] = []
        self.archived: set[str] = set()
        self.now = 100.0
        self.listings = 0
        source = FileSource(files=f"{URL}*.jsonl", format="jsonl")
        self.unread = UnreadObjects({"s": source}, UnreadFiles(self.find), lambda: self.now)

    def find(self, _stream: str, names: Set[str]) -> set[str]:
        return self.archived & names

    def put(self, name: str, second: int, size: int = 10) -> None:
        modified = START + timedelta(seconds=second)
        self.objects.append(ListedObject(ObjectPath(URL + name), modified, size))

    def list(self, _glob: ObjectGlob) -> Sequence[ListedObject]:
        self.listings += 1
        return self.objects


@pytest.fixture
def world() -> World:
    world = World()
    with patch.object(ObjectGlob, "list", lambda pattern: world.list(pattern)):
        yield world


def names(files: Sequence[DiscoveredFile]) -> list[str]:
    return [str(file.path).removeprefix(URL) for file in files]


def test_objects_come_once_in_the_order_of_their_arrival(world: World) -> None:
    world.put("b.jsonl", 1)
    world.put("a.jsonl", 2)
    world.put("old.jsonl", 0)
    world.archived = {f"{URL}old.jsonl"}
    found = world.unread.find()
    assert names(found) == ["b.jsonl", "a.jsonl"]
    assert world.unread.has_unread("s")
    world.unread.record_archived(found)
    assert not world.unread.has_unread("s")
    world.now += 1
    assert world.unread.find() == []


def test_new_object_is_found_within_half_a_second_and_few_listings(world: World) -> None:
    for _ in range(100):
        world.now += 0.1
        world.unread.find()
    assert world.listings <= 40
    world.put("a.jsonl", 1)
    world.now += 0.4
    assert names(world.unread.find()) == ["a.jsonl"]


def test_all_objects_are_ingested_in_batches_of_limited_size(world: World) -> None:
    for number in range(5):
        world.put(f"{number}.jsonl", number, size=30 << 20)
    batches: list[list[str]] = []

    def ingest(files: Sequence[DiscoveredFile]) -> None:
        batches.append(names(files))
        world.unread.record_archived(files)

    world.unread.ingest_all(ingest)
    assert batches == [["0.jsonl", "1.jsonl"], ["2.jsonl", "3.jsonl"], ["4.jsonl"]]


def test_storage_that_cannot_be_listed_is_unreachable(world: World) -> None:
    with (
        patch.object(ObjectGlob, "list", side_effect=StorageFailed("access denied")),
        pytest.raises(Unreachable, match="access denied"),
    ):
        world.unread.find()
