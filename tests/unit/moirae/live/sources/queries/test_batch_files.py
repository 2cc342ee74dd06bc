"""Files of a micro-batch in the checkpoint of a query."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from moirae.live.sources.queries import batch_files
from moirae.live.sources.queries.batch_files import read_batch_files

Entry = tuple[str, int]  # the name of a file, and its position in the log


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def _write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *lines]))


def _write_offsets(checkpoint: Path, batch: int, *positions: int | None) -> None:
    offsets = ["-" if position is None else f'{{"logOffset":{position}}}' for position in positions]
    _write(checkpoint / "offsets" / str(batch), '{"batchTimestampMs":1}', *offsets)


def _write_log(
    checkpoint: Path, landing: Path, source: int, log: str, entries: Sequence[Entry]
) -> None:
    lines: list[str] = []
    for name, position in entries:
        (landing / name).touch()
        path = (landing / name).as_uri()
        lines.append(json.dumps({"path": path, "timestamp": 1, "batchId": position}))
    _write(checkpoint / "sources" / str(source) / log, *lines)


def _names_by_stream(
    checkpoint: Path, batch: int, streams: Sequence[str] = ("a", "b")
) -> Mapping[str, list[str]] | None:
    files = read_batch_files(checkpoint, batch, streams)
    if files is None:
        return None
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.stream, []).append(file.path.name)
    return names


def test_files_between_the_positions_of_two_batches_are_found(
    checkpoint: Path, landing: Path
) -> None:
    _write_offsets(checkpoint, 0, 0, None)
    _write_offsets(checkpoint, 1, 2, 0)
    _write_log(checkpoint, landing, 0, "0", [("x 0%20é#?.jsonl", 0)])
    _write_log(checkpoint, landing, 0, "1", [("x1.jsonl", 1), ("x2.jsonl", 1)])
    _write_log(checkpoint, landing, 0, "2", [("x3.jsonl", 2)])
    _write_log(checkpoint, landing, 1, "0", [("y0.jsonl", 0)])
    assert _names_by_stream(checkpoint, 0) == {"a": ["x 0%20é#?.jsonl"]}
    assert _names_by_stream(checkpoint, 1) == {
        "a": ["x1.jsonl", "x2.jsonl", "x3.jsonl"],
        "b": ["y0.jsonl"],
    }


def test_compacted_log_is_read_from_its_end(
    checkpoint: Path, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_offsets(checkpoint, 8, 8)
    _write_offsets(checkpoint, 9, 9)
    names = [f"new{number}.jsonl" for number in range(20)]
    entries = [("old.jsonl", 8)] * 100 + [(name, 9) for name in names]
    _write_log(checkpoint, landing, 0, "9.compact", entries)
    log = checkpoint / "sources/0/9.compact"
    # The first line is not valid: the whole log is not read.
    log.write_bytes(b"!" + log.read_bytes())
    line_size = log.stat().st_size // 120
    for size in (1, line_size, 10 * line_size, 50 * line_size):
        monkeypatch.setattr(batch_files, "_FIRST_READ", size)
        assert _names_by_stream(checkpoint, 9, ["a"]) == {"a": names}
    monkeypatch.setattr(batch_files, "_FIRST_READ", 1 << 20)
    assert _names_by_stream(checkpoint, 9, ["a"]) is None


def test_log_of_one_batch_is_read_whole(
    checkpoint: Path, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_offsets(checkpoint, 0, 0)
    names = [f"{number}.jsonl" for number in range(100)]
    _write_log(checkpoint, landing, 0, "0", [(name, 0) for name in names])
    monkeypatch.setattr(batch_files, "_FIRST_READ", 10)
    assert _names_by_stream(checkpoint, 0, ["a"]) == {"a": names}
    (checkpoint / "sources/0/0").rename(checkpoint / "sources/0/0.compact")
    assert _names_by_stream(checkpoint, 0, ["a"]) == {"a": names}


def test_batch_that_is_not_in_the_checkpoint_is_left_to_spark(
    checkpoint: Path, landing: Path
) -> None:
    assert read_batch_files(checkpoint, 0, ["a"]) is None
    _write_offsets(checkpoint, 0, 0)
    assert read_batch_files(checkpoint, 0, ["a"]) is None, "no log of the source"
    _write_log(checkpoint, landing, 0, "0", [("x0.jsonl", 0)])
    assert read_batch_files(checkpoint, 0, ["a", "b"]) is None, "other sources"
    _write_offsets(checkpoint, 5, 1)
    assert read_batch_files(checkpoint, 5, ["a"]) is None, "no batch before it"
    assert _names_by_stream(checkpoint, 0, ["a"]) == {"a": ["x0.jsonl"]}
    (landing / "x0.jsonl").unlink()
    assert read_batch_files(checkpoint, 0, ["a"]) is None, "the file is gone"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "v2\n{}",
        'v1\n{"path":"s3://a/b","batchId":0}',
        "v1\n[]",
        "v1\n{}",
        "v1\nx",
        'v1\n{"path":7,"batchId":0}',
    ],
)
def test_unknown_format_is_left_to_spark(checkpoint: Path, content: str) -> None:
    _write_offsets(checkpoint, 0, 0)
    log = checkpoint / "sources" / "0" / "0"
    log.parent.mkdir(parents=True)
    log.write_text(content)
    assert read_batch_files(checkpoint, 0, ["a"]) is None
