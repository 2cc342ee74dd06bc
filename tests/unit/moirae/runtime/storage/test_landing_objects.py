"""Batches that wait in object storage: in the order in which they were written, by any machine."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from obstore.store import MemoryStore

from archiver.errors import StorageFailed
from archiver.storage import objects
from moirae.runtime.storage.landing_objects import LandingBucket, LandingObjects

URL = "s3://bucket/landing"


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """A bucket in memory."""
    memory = MemoryStore()
    with patch.object(objects, "open_bucket", return_value=memory):
        yield memory


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bucket(store: MemoryStore, clock: Clock) -> LandingBucket:
    return LandingBucket(URL, clock)


def _keys(store: MemoryStore) -> list[str]:
    return [metadata["path"] for page in store.list() for metadata in page]


@pytest.mark.usefixtures("store")
def test_batches_are_read_in_the_order_in_which_they_were_written(bucket: LandingBucket) -> None:
    landing = LandingObjects(bucket, "cpu")
    names = [f"push-{number}" for number in (3, 1, 2, 0)]
    for name in names:
        landing.write_batch(name, ".jsonl", name.encode())
    batches = landing.pending_batches()
    assert [batch.name for batch in batches] == names
    assert [batch.path.open("rb").read().decode() for batch in batches] == names
    assert [batch.size for batch in batches] == [6] * 4
    assert sorted(batch.modified for batch in batches) == [batch.modified for batch in batches]


@pytest.mark.usefixtures("store")
def test_clock_that_is_set_back_does_not_change_the_order(bucket: LandingBucket) -> None:
    landing = LandingObjects(bucket, "cpu")
    for name, seconds in (("a", 200.0), ("b", 100.0), ("c", 300.0)):
        with patch("moirae.runtime.storage.landing_objects.unix_now", return_value=seconds):
            landing.write_batch(name, ".csv.gz", b"")
    assert [batch.name for batch in landing.pending_batches()] == ["a", "b", "c"]


@pytest.mark.usefixtures("store")
def test_streams_have_batches_of_their_own(bucket: LandingBucket) -> None:
    LandingObjects(bucket, "a").write_batch("x", ".jsonl", b"1")
    LandingObjects(bucket, "ab").write_batch("y", ".jsonl", b"2")
    assert [batch.name for batch in LandingObjects(bucket, "a").pending_batches()] == ["x"]
    assert LandingObjects(bucket, "a").has_batch("x", ".jsonl")
    assert not LandingObjects(bucket, "a").has_batch("x", ".csv")
    assert not LandingObjects(bucket, "a").has_batch("y", ".jsonl")


def test_interrupted_batch_never_appears(bucket: LandingBucket, store: MemoryStore) -> None:
    def write_interrupted() -> None:
        with LandingObjects(bucket, "cpu").open_batch("a", ".jsonl") as file:
            file.write(b"{}")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        write_interrupted()
    assert _keys(store) == []


def test_removed_batch_is_gone_at_once(bucket: LandingBucket, store: MemoryStore) -> None:
    landing = LandingObjects(bucket, "cpu")
    landing.write_batch("a", ".jsonl", b"")
    landing.write_batch("b", ".jsonl", b"")
    first, second = landing.pending_batches()
    landing.remove(first.path)
    assert landing.pending_batches() == [second]
    landing.remove(first.path)  # as after a crash
    assert len(_keys(store)) == 1


def test_one_listing_serves_all_streams_for_a_moment(
    bucket: LandingBucket, store: MemoryStore, clock: Clock
) -> None:
    landing = LandingObjects(bucket, "cpu")
    assert landing.pending_batches() == []
    LandingObjects(LandingBucket(URL), "cpu").write_batch("a", ".jsonl", b"")  # another process
    assert landing.pending_batches() == LandingObjects(bucket, "b").pending_batches() == []
    clock.now += 0.3
    assert [batch.name for batch in landing.pending_batches()] == ["a"]
    store.put("landing/cpu/foreign.jsonl", b"")
    clock.now += 0.3
    assert [batch.name for batch in landing.pending_batches()] == ["a"]


def test_renamed_stream_takes_its_batches_along(bucket: LandingBucket, store: MemoryStore) -> None:
    old, new = LandingObjects(bucket, "old"), LandingObjects(bucket, "new")
    for name in ("b", "a"):
        old.write_batch(name, ".jsonl.gz", name.encode())
    before = old.pending_batches()
    old.move_to(new)
    assert old.pending_batches() == []
    moved = new.pending_batches()
    assert [(batch.name, batch.modified) for batch in moved] == [
        (batch.name, batch.modified) for batch in before
    ]
    assert all(key.endswith(".jsonl.gz") for key in _keys(store))


def test_listing_that_fails_names_the_bucket(bucket: LandingBucket) -> None:
    with (
        patch.object(objects, "open_bucket", side_effect=OSError("no route to host")),
        pytest.raises(StorageFailed, match=f"{URL}: no route to host"),
    ):
        LandingObjects(bucket, "cpu").pending_batches()
