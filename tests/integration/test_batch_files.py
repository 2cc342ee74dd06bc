"""The checkpoint names the files of a micro-batch as its data frame does."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.queries import streaming_queries
from moirae.live.sources.queries.batch_files import find_batch_files

_BATCHES = 24  # each tenth one compacts the logs of the sources
_STREAMS = ("a", "b")


def test_checkpoint_has_the_files_of_each_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Sequence[DiscoveredFile] | None] = []
    in_frames: list[Sequence[DiscoveredFile]] = []

    def find(checkpoint: Path, batch: int, streams: Sequence[str]) -> None:
        found.append(find_batch_files(checkpoint, batch, streams))

    monkeypatch.setattr(streaming_queries, "find_batch_files", find)

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
            handled_count = len(in_frames)
            for stream in _STREAMS[: 1 + number % 2]:
                (tmp_path / stream / f"{number} 20%é#.jsonl").write_text("{}\n" * (number + 1))
            deadline = time.monotonic() + 60
            while len(in_frames) == handled_count:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    run_query(lambda: put_files(0, _BATCHES // 2))
    run_query(lambda: put_files(_BATCHES // 2, _BATCHES))
    assert len(in_frames) >= _BATCHES
    assert list(map(_sorted_files, found)) == list(map(_sorted_files, in_frames))


def _sorted_files(files: Sequence[DiscoveredFile] | None) -> list[DiscoveredFile]:
    assert files is not None
    return sorted(files, key=lambda file: (file.stream, str(file.path)))
