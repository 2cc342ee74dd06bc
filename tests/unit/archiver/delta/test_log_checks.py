"""Damaged files of a log are found, also those that readers pass over."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from archiver.delta.log_checks import check_log
from archiver.storage.base import LocalStorage

COMMIT = "_delta_log/00000000000000000003.json"
CHECKPOINT = "_delta_log/00000000000000000002.checkpoint.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in range(5):
        write_deltalake(tmp_path, pa.table({"n": [number]}), mode="append")
        if number == 2:
            DeltaTable(tmp_path).create_checkpoint()
    return tmp_path


def test_whole_log_has_no_damage(table: Path) -> None:
    check = check_log(LocalStorage(table))
    assert (check.first, check.newest, check.damaged) == (3, 4, [])
    # Commits before the checkpoint are history.
    (table / "_delta_log" / "00000000000000000001.json").write_bytes(b"")
    assert check_log(LocalStorage(table)).damaged == []


@pytest.mark.parametrize(
    ("name", "damage", "text"),
    [
        (COMMIT, lambda path: path.write_bytes(b""), "is empty"),
        (COMMIT, lambda path: path.write_bytes(path.read_bytes()[:80]), "is not valid JSON"),
        (COMMIT, lambda path: path.write_bytes(b"{}\n"), "has a line that is no action"),
        (COMMIT, lambda path: path.write_bytes(b'{"add": {}}'), "without a path"),
        (COMMIT, Path.unlink, "is missing"),
        (CHECKPOINT, lambda path: path.write_bytes(path.read_bytes()[:99]), "cannot be read"),
        ("_delta_log/_last_checkpoint", lambda path: path.write_bytes(b"{"), "cannot be read"),
    ],
)
def test_damage_is_named(
    table: Path, name: str, damage: Callable[[Path], object], text: str
) -> None:
    damage(table / name)
    (damaged,) = check_log(LocalStorage(table)).damaged
    assert damaged.name == name
    assert text in damaged.text


def test_pointer_to_no_checkpoint_is_damage(table: Path) -> None:
    (table / CHECKPOINT).unlink()
    check = check_log(LocalStorage(table))
    assert [file.name for file in check.damaged] == ["_delta_log/_last_checkpoint"]
    assert check.first == 0
