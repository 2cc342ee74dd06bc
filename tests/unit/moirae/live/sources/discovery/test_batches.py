"""Batches of files."""

from pathlib import Path

from moirae.live.sources.discovery.batches import FileBatches
from moirae.live.sources.files import DiscoveredFile


def _file(stream: str, name: str, modified: int, size: int = 10) -> DiscoveredFile:
    return DiscoveredFile(stream, Path("/in") / name, modified, size)


def _next_names(batches: FileBatches) -> list[str]:
    batches.finish_batch()
    batches.start_batch()
    return [file.path.name for file in batches.current]


def test_batches_are_of_limited_size_in_order_of_time_and_name() -> None:
    batches = FileBatches(max_bytes=25, max_files=100)
    batches.add([_file("s", "c", 2), _file("s", "b", 2), _file("s", "a", 3), _file("s", "d", 1)])
    assert _next_names(batches) == ["d", "b"]
    batches.add([_file("s", "early", 0)])
    assert _next_names(batches) == ["early", "c"]
    assert _next_names(batches) == ["a"]
    assert _next_names(batches) == []


def test_batch_has_files_of_each_stream_and_at_least_one() -> None:
    batches = FileBatches(max_bytes=5, max_files=100)
    batches.add([_file("s", "a", 1), _file("s", "b", 2), _file("t", "c", 9)])
    assert _next_names(batches) == ["a", "c"]
    assert _next_names(batches) == ["b"]


def test_empty_files_share_a_batch() -> None:
    batches = FileBatches(max_bytes=5, max_files=100)
    batches.add([_file("s", "a", 1, size=0), _file("s", "b", 2, size=0)])
    assert _next_names(batches) == ["a", "b"]


def test_batches_have_a_limited_number_of_files() -> None:
    batches = FileBatches(max_bytes=100, max_files=2)
    batches.add(_file("s", name, 1, size=0) for name in "abc")
    assert _next_names(batches) == ["a", "b"]
    assert _next_names(batches) == ["c"]


def test_there_is_one_batch_at_a_time() -> None:
    batches = FileBatches(max_bytes=5, max_files=100)
    assert not batches.start_batch()
    batches.add([_file("s", "a", 1), _file("s", "b", 2)])
    assert batches.start_batch()
    assert not batches.start_batch()
    batches.add([_file("s", "a", 1), _file("s", "b", 2)])
    batches.finish_batch()
    assert _next_names(batches) == ["b"], "a file waits once"
    assert batches.ready_streams() == {"s"}
    batches.finish_batch()
    assert batches.ready_streams() == set()


def test_postponed_file_is_in_no_batch_until_it_is_resumed() -> None:
    batches = FileBatches(max_bytes=100, max_files=100)
    files = [_file("s", "a", 1), _file("s", "b", 2), _file("s", "c", 3)]
    batches.add(files)
    batches.start_batch()
    batches.finish_batch(files[:2])
    assert not batches.start_batch()
    assert batches.ready_streams() == set()
    batches.add(files)
    assert _next_names(batches) == ["c"], "the others are postponed"
    batches.resume(files[1:2])
    assert batches.postponed == files[:1]
    assert _next_names(batches) == ["b"]
