"""Copies of accepted batches for a backup: of a folder and of object storage."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from obstore.store import MemoryStore

from archiver.storage import objects
from moirae.backup.landing_copies import LandingCopies
from moirae.runtime.storage import Landings


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """A bucket in memory."""
    memory = MemoryStore()
    with patch.object(objects, "open_bucket", return_value=memory):
        yield memory


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("url", [None, "s3://bucket/copied"])
def test_copies_stay_when_batches_are_archived_and_keep_their_order(
    url: str | None, tmp_path: Path
) -> None:
    landings = Landings(tmp_path / "home", url)
    copies = LandingCopies(landings, ["cpu", "disk"], tmp_path / "copies")
    copies.collect()
    assert copies.list_files() == []
    landings.open("cpu").write_batch("b", ".jsonl", b"1")
    landings.open("cpu").write_batch("a", ".csv.gz", b"2")
    landings.open("disk").write_batch("c", ".jsonl", b"3")
    copies.collect()
    for stream in ("cpu", "disk"):
        for batch in landings.open(stream).pending_batches():
            landings.open(stream).remove(batch.path)
    copies.collect()
    files = copies.list_files()
    assert [(stream, path.name, path.read_bytes()) for stream, path in files] == [
        ("cpu", "a.csv.gz", b"2"),
        ("cpu", "b.jsonl", b"1"),
        ("disk", "c.jsonl", b"3"),
    ]
    modified = {path.name: path.stat().st_mtime_ns for _, path in files}
    assert modified["b.jsonl"] <= modified["a.csv.gz"] <= modified["c.jsonl"]
    assert copies.names() == {("cpu", "a"), ("cpu", "b"), ("disk", "c")}
