"""The checkpoint names the files of a micro-batch as its data frame does, and empty ones."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries import streaming_queries
from moirae.live.sources.queries.batch_files import read_batch_files
from tests.landing import put_file

_BATCHES = 24  # each tenth one compacts the logs of the sources
_STREAMS = ("a", "b", "c")


def test_checkpoint_has_the_files_of_each_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_checkpoint: list[Sequence[DiscoveredFile]] = []
    by_batch: dict[int, Sequence[DiscoveredFile]] = {}
    in_frames: list[Sequence[DiscoveredFile]] = []

    def read_files(checkpoint: Path, batch: int, streams: Sequence[str]) -> None:
        files = read_batch_files(checkpoint, batch, streams)
        assert files is not None
        in_checkpoint.append(files)
        # A batch is repeated, with the same files, if the query was stopped before its commit.
        assert by_batch.setdefault(batch, files) == files

    monkeypatch.setattr(streaming_queries, "read_batch_files", read_files)

    def run_query(put_files: Callable[[], None]) -> None:
        query = streaming_queries.start_file_query(
            spark,
            {stream: str(tmp_path / stream / "*.jsonl") for stream in _STREAMS},
            checkpoint=tmp_path / "checkpoint",
            handle_files=in_frames.append,
            drain=False,
        )
        try:
            put_files()
        finally:
            query.stop()

    def put_files(first: int, last: int) -> None:
        for number in range(first, last):
            # First, so that it is in a finished batch when the other files are.
            put_file(tmp_path / _STREAMS[number % 3] / f"{number} empty.jsonl", "")
            paths = [
                tmp_path / stream / f"{number} 20%é#.jsonl" for stream in _STREAMS[: 1 + number % 2]
            ]
            for path in paths:
                put_file(path, "{}\n" * (number + 1))
            deadline = time.monotonic() + 60
            while not {file.path for files in in_frames for file in files}.issuperset(paths):
                assert time.monotonic() < deadline
                time.sleep(0.01)

    run_query(lambda: put_files(0, _BATCHES // 2))
    run_query(lambda: put_files(_BATCHES // 2, _BATCHES))
    assert len(in_frames) >= _BATCHES
    # `handle_files` is not called for a batch without files in its frame.
    with_content = [_sort_by_name(file for file in files if file.size) for files in in_checkpoint]
    assert list(filter(None, with_content)) == list(map(_sort_by_name, in_frames))
    all_files = list(chain.from_iterable(by_batch.values()))
    assert sum(not file.size for file in all_files) == _BATCHES
    assert len(all_files) == len(set(all_files))


def _sort_by_name(files: Iterable[DiscoveredFile]) -> list[DiscoveredFile]:
    return sorted(files, key=lambda file: (file.stream, str(file.path)))
