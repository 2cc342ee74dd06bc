"""A name in `was` that the archive does not know is refused."""

from dataclasses import replace
from pathlib import Path

from archiver.delta import StreamTable
from moirae.config import stream_schema
from moirae.runtime.storage.declarations import find_declaration_problems
from tests.unit.moirae.config.workspace_files import load
from tests.unit.moirae.runtime.storage.test_declarations import WORKSPACE

RENAMED = WORKSPACE.replace("  s:\n", "  t:\n    was: old\n")


def _create_tables(folder: Path, *names: str) -> None:
    settings = load(folder, WORKSPACE)
    schema = stream_schema("s", settings.streams["s"])
    for name in names:
        StreamTable(Path(settings.archive), replace(schema, name=name))


def _problems(folder: Path) -> list[str]:
    return list(map(str, find_declaration_problems(load(folder, RENAMED))))


def test_misspelled_name_is_refused_with_the_names_it_may_be(tmp_path: Path) -> None:
    _create_tables(tmp_path, "olt", "other")
    assert _problems(tmp_path) == [
        f"{tmp_path}/moirae.yaml:3:10: streams.t.was: no stream 'old' is archived (archived and "
        "not declared: olt, other): correct the name, or remove `was`; 't' is a new stream then, "
        "which reads all its files"
    ]


def test_name_is_known_before_and_after_the_rename(tmp_path: Path) -> None:
    _create_tables(tmp_path, "old", "other")
    assert _problems(tmp_path) == []
    archive = Path(load(tmp_path, WORKSPACE).archive) / "streams"
    (archive / "old").rename(archive / "t")
    assert _problems(tmp_path) == []


def test_new_workspace_may_have_names_before(tmp_path: Path) -> None:
    assert _problems(tmp_path) == []
