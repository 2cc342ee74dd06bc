"""Unread batches lose the lines with an erased value; the other lines keep their numbers."""

import gzip
from pathlib import Path

from moirae.erasure.landed_batches import BatchChanges, erase_from_batches
from moirae.erasure.values import ErasedValues
from moirae.runtime.storage.landings import Landings

VALUES = ErasedValues(["erase-me-1"])


def put(home: Path, name: str, content: bytes) -> Path:
    path = home / "landing" / "cpu" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_line_is_emptied(tmp_path: Path) -> None:
    path = put(tmp_path, "push-1.jsonl", b'{"a": 1}\n{"a": "erase-me-1"}\n{"a": 2}\n')
    modified = path.stat().st_mtime_ns
    assert erase_from_batches(Landings(tmp_path), VALUES).lines == 1
    assert path.read_bytes() == b'{"a": 1}\n\n{"a": 2}\n'
    assert path.stat().st_mtime_ns == modified
    assert [file.name for file in path.parent.iterdir()] == ["push-1.jsonl"]


def test_carriage_return_within_a_line_does_not_end_it(tmp_path: Path) -> None:
    path = put(tmp_path, "push-1.log", b"a=1\rb=erase-me-1\rc=3\na=2\n")
    assert erase_from_batches(Landings(tmp_path), VALUES).lines == 1
    assert path.read_bytes() == b"\na=2\n"


def test_compressed_batch_is_written_again(tmp_path: Path) -> None:
    path = put(tmp_path, "push-1.csv.gz", gzip.compress(b"a,b\nerase-me-1,2\n3,4\n"))
    assert erase_from_batches(Landings(tmp_path), VALUES).lines == 1
    assert gzip.decompress(path.read_bytes()) == b"a,b\n\n3,4\n"


def test_batch_of_another_form_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "push-1.avro", b"erase-me-1")
    changes = erase_from_batches(Landings(tmp_path), VALUES)
    assert (changes.lines, changes.other) == (0, [str(path)])
    assert path.read_bytes() == b"erase-me-1"


def test_batch_without_the_value_is_not_touched(tmp_path: Path) -> None:
    path = put(tmp_path, "push-1.jsonl", b'{"a": 1}\n')
    inode = path.stat().st_ino
    assert erase_from_batches(Landings(tmp_path), VALUES).lines == 0
    assert path.stat().st_ino == inode


def test_what_a_killed_erasure_has_left_is_removed(tmp_path: Path) -> None:
    path = put(tmp_path, ".push-1.jsonl.erasing", b"{")
    assert erase_from_batches(Landings(tmp_path), VALUES) == BatchChanges()
    assert not path.exists()
