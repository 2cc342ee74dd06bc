"""New objects, listed at intervals."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest

from archiver.errors import StorageFailed
from archiver.storage import ObjectGlob, ObjectPath
from archiver.storage.objects import ListedObject
from moirae.live.sources.discovery.objects import ObjectDiscovery
from moirae.live.sources.discovery.recorded_versions import RecordedVersions
from moirae.live.sources.files import DiscoveredFile
from sql.archive import FileVersionRow

START = datetime(2026, 1, 1, tzinfo=UTC)
URL = "s3://bucket/in/"


class World:
    """A bucket, a ledger and a clock."""

    def __init__(self, *, ordered: bool = False) -> None:
        self.objects: list[ListedObject] = []
        self.versions: dict[str, FileVersionRow] = {}
        self.now = 100.0
        self.listings = 0
        self.full_listings = 0
        self.discovery = ObjectDiscovery(
            "s",
            f"{URL}*.jsonl",
            RecordedVersions("s", self.list_versions, self.adopt),
            ordered=ordered,
            clock=lambda: self.now,
        )

    def list_versions(self, names: Collection[str]) -> dict[str, FileVersionRow]:
        return {name: self.versions[name] for name in names if name in self.versions}

    def adopt(self, version: FileVersionRow) -> None:
        self.versions[version.unit] = version

    def put(self, name: str, size: int = 10) -> None:
        path = ObjectPath(URL + name)
        self.objects = [item for item in self.objects if item.path != path]
        self.objects.append(ListedObject(path, START, size))

    def find_new(self) -> list[DiscoveredFile]:
        """After a second."""
        self.now += 1
        return self.discovery.find_new()

    def archive(self, files: Iterable[DiscoveredFile]) -> None:
        for file in files:
            url = str(file.path)
            self.versions[url] = FileVersionRow(url, file.size, file.modified, file.reading)

    def list(self, _glob: ObjectGlob, after: ObjectPath | None = None) -> Sequence[ListedObject]:
        self.listings += 1
        self.full_listings += after is None
        return [item for item in self.objects if after is None or item.path.url > after.url]


@contextmanager
def bucket(*, ordered: bool = False) -> Iterator[World]:
    world = World(ordered=ordered)
    with patch.object(ObjectGlob, "list", lambda pattern, after=None: world.list(pattern, after)):
        yield world


@pytest.fixture
def world() -> Iterator[World]:
    with bucket() as world:
        yield world


def names(files: Sequence[DiscoveredFile]) -> list[str]:
    return sorted(str(file.path).removeprefix(URL) for file in files)


def test_object_is_found_once(world: World) -> None:
    for name in ("b.jsonl", "a.jsonl", "old.jsonl"):
        world.put(name)
    old = f"{URL}old.jsonl"
    world.versions = {old: FileVersionRow(old, 10, int(START.timestamp()) * 1_000_000)}
    files = world.discovery.find_new()
    assert names(files) == ["a.jsonl", "b.jsonl"]
    assert {file.modified for file in files} == {int(START.timestamp()) * 1_000_000}
    world.now += 1
    assert world.discovery.find_new() == []


def test_changed_object_is_found_again_once_it_was_read(world: World) -> None:
    world.put("a.jsonl")
    waiting = world.discovery.find_new()
    world.put("a.jsonl", size=20)  # before it is read
    assert world.find_new() == []
    world.archive(waiting)
    changed = world.find_new()
    assert [(file.size, file.reading) for file in changed] == [(20, 2)]
    world.put("a.jsonl", size=30)  # before it is read again
    assert world.find_new() == []
    world.archive(changed)
    changed = world.find_new()
    assert [(file.size, file.reading) for file in changed] == [(30, 3)]
    world.archive(changed)
    assert world.find_new() == []


def test_version_of_an_object_that_the_ledger_does_not_have_is_adopted(world: World) -> None:
    url = f"{URL}a.jsonl"
    world.put("a.jsonl")
    world.versions[url] = FileVersionRow(url, None, None)
    assert world.find_new() == []
    assert world.versions[url].size == 10
    world.put("a.jsonl", size=20)
    assert [file.reading for file in world.find_new()] == [2]


def test_new_object_is_found_within_half_a_second_and_few_listings(world: World) -> None:
    for _ in range(100):
        world.now += 0.1
        world.discovery.find_new()
    assert world.listings <= 40
    world.put("a.jsonl")
    world.now += 0.4
    assert names(world.discovery.find_new()) == ["a.jsonl"]


def test_storage_that_cannot_be_listed_is_a_problem_until_it_can(world: World) -> None:
    world.put("a.jsonl")
    with patch.object(ObjectGlob, "list", side_effect=StorageFailed("access denied")):
        assert world.discovery.find_new() == []
    assert world.discovery.problem == "access denied"
    world.now += timedelta(seconds=1).total_seconds()
    assert names(world.discovery.find_new()) == ["a.jsonl"]
    assert world.discovery.problem is None


def test_ordered_objects_are_listed_after_the_last_name_and_all_from_time_to_time() -> None:
    with bucket(ordered=True) as world:
        world.put("2.jsonl")
        assert names(world.discovery.find_new()) == ["2.jsonl"]
        world.now += 1
        world.put("3.jsonl")
        world.put("1.jsonl")  # out of order
        assert names(world.discovery.find_new()) == ["3.jsonl"]
        for _ in range(50):
            world.now += 1
            assert world.discovery.find_new() == []
        assert (world.listings, world.full_listings) == (52, 1)
        world.now += 10
        assert names(world.discovery.find_new()) == ["1.jsonl"]
        world.now += 1
        assert world.discovery.find_new() == []
        assert world.full_listings == 2


def test_ordered_objects_that_are_all_gone_are_no_problem() -> None:
    with bucket(ordered=True) as world:
        world.put("1.jsonl")
        world.discovery.find_new()
        world.objects.clear()
        world.now += 100
        assert world.discovery.find_new() == []
        world.put("0.jsonl")
        world.now += 100
        assert names(world.discovery.find_new()) == ["0.jsonl"]
