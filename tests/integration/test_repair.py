"""Each damage that `moirae doctor` finds is repaired; what is lost is said and accounted for."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from archiver.delta.table import StreamTable
from archiver.errors import LogDamaged
from archiver.ingest.ledger import LedgerCompaction
from archiver.storage.base import LocalStorage
from archiver.times import to_micros
from moirae.backup.postgresql import open_dump, restore_dump
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.errors import Conflict, MoiraeError, NotFound
from moirae.live.sources.files import make_units, stat_file
from moirae.repair import BackupFiles, Repairs
from moirae.runtime.database import connect_database, database_dsn
from moirae.runtime.storage import open_storage
from sql.archive import RepairGateway, UnitGateway
from sql.workspace import WorkspaceGateway, read_snapshot
from tests.backups import (
    START,
    WORKSPACE,
    Filled,
    filled,
    make_backup,
    numbers_of,
    problems_of,
    repository,
    stop_database,
)

pytestmark = pytest.mark.services

FILES = WORKSPACE.replace("{http: true}", "{files: 'in/*.jsonl', after: 'move:done'}")


def make_file_workspace(folder: Path) -> Settings:
    """A workspace of files that are moved."""
    (folder / "in").mkdir(parents=True)
    (folder / "hosts.csv").write_text("host,site\na,x\n")
    (folder / "moirae.yaml").write_text(FILES)
    return load_settings_from_environment(folder / "moirae.yaml")


def archive_file(archive: Filled, name: str, numbers: range) -> None:
    """Archive a file of rows, and move it."""
    folder = archive.settings.file.parent
    path = folder / "in" / name
    lines = [
        json.dumps({"ts": str(START + timedelta(seconds=n)), "host": "a", "n": n}) for n in numbers
    ]
    path.write_text("\n".join([*lines, "no record", ""]))
    file = stat_file("cpu", path)
    assert file is not None
    formats = {"cpu": archive.settings.streams["cpu"].source.record_format}
    units = make_units([file], formats, folder)
    archive.writer.ingest(units, to_micros(START + timedelta(days=1)))
    (folder / "done").mkdir(exist_ok=True)
    path.rename(folder / "done" / name)


@pytest.fixture
def workspace(public_folder: Path) -> Iterator[Settings]:
    """60 rows: 40 and 10 of files that were moved, 10 of batches that are gone."""
    settings = make_file_workspace(public_folder / "workspace")
    with filled(settings) as archive:
        archive_file(archive, "first.jsonl", range(40))
        archive_file(archive, "second.jsonl", range(40, 50))
        archive.post(range(50, 60))
        archive.archive()
    assert problems_of(settings) == []
    yield settings
    stop_database(settings)
    shutil.rmtree(settings.file.parent)


def no_spark() -> Any:
    """Topics are not read."""
    raise AssertionError


def _repair(settings: Settings, backups: Path | None = None, *, dry_run: bool = False) -> list[str]:
    """Repair; returns what was lost."""
    with connect_database(settings, "tests") as connection:
        identity = WorkspaceGateway(connection).get()
        files = BackupFiles(None if backups is None else repository(backups), identity)
        steps = list(Repairs(settings, connection, files, no_spark).run(dry_run=dry_run))
    return [step.loss for step in steps]


def data_files(settings: Settings) -> list[Path]:
    """The data files of the stream, in the order of their appends."""
    schema = stream_schema("cpu", settings.streams["cpu"])
    table = StreamTable(open_storage(settings), schema)
    return sorted(map(Path, table.local_paths()), key=lambda path: int(path.name.split("-")[1]))


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


def log_folder(settings: Settings) -> Path:
    """The log of the stream's table."""
    return Path(settings.archive) / "streams" / "cpu" / "_delta_log"


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, _flip, _truncate])
def test_damaged_files_are_taken_from_a_backup(
    workspace: Settings, damage: Callable[[Path], None]
) -> None:
    backups = workspace.file.parent / "backups"
    make_backup(workspace, backups)
    for path in data_files(workspace):
        damage(path)
    assert problems_of(workspace) != []
    assert _repair(workspace, backups, dry_run=True) == [""] * len(data_files(workspace))
    assert problems_of(workspace) != []
    assert set(_repair(workspace, backups)) == {""}
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, _flip, _truncate])
def test_rows_of_lost_files_are_read_again_and_others_recorded_as_lost(
    workspace: Settings, damage: Callable[[Path], None]
) -> None:
    for path in data_files(workspace):
        damage(path)
    planned = [loss for loss in _repair(workspace, dry_run=True) if loss]
    assert len(planned) == 1
    assert planned[0].startswith("10 rows; of chunk=")
    assert "event times 2026-01-01T00:00:" in planned[0]
    assert [loss for loss in _repair(workspace) if loss] == planned
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(50))
    with connect_database(workspace, "tests") as connection:
        (lost,) = RepairGateway(connection).list_lost()
    assert (lost.unit, lost.rows) == ("push-50", 10)
    assert _repair(workspace) == []
    damaged = (Path(workspace.home) / "damaged").rglob("*.parquet")
    assert bool(list(damaged)) == (damage is not Path.unlink)
    with filled(workspace) as archive:
        archive_file(archive, "third.jsonl", range(45, 70))
    assert numbers_of(workspace) == list(range(70))
    assert problems_of(workspace) == []


def _delete_rows(settings: Settings, condition: str) -> None:
    DeltaTable(open_storage(settings) / "streams" / "cpu").delete(condition)


@pytest.mark.slow
def test_rows_that_another_program_has_deleted_stay_deleted(workspace: Settings) -> None:
    _delete_rows(workspace, "n IN (3, 44)")
    assert problems_of(workspace) != []
    assert _repair(workspace) == ["", ""]
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == [n for n in range(60) if n not in (3, 44)]
    assert _repair(workspace) == []


@pytest.mark.slow
def test_deleted_rows_stay_deleted_when_others_are_read_again(workspace: Settings) -> None:
    before = data_files(workspace)
    _delete_rows(workspace, "n = 3")
    unchanged = set(before).intersection(data_files(workspace))
    for path in unchanged:
        path.unlink()
    assert len(unchanged) == 2
    _repair(workspace)
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == [n for n in range(50) if n != 3]
    with connect_database(workspace, "tests") as connection:
        (lost,) = RepairGateway(connection).list_lost()
    assert lost.rows == 10


@pytest.mark.slow
def test_rows_are_not_read_again_where_deleted_ones_are_not_known(workspace: Settings) -> None:
    before = data_files(workspace)
    _delete_rows(workspace, "n = 3")
    for path in [*before, *data_files(workspace)]:
        path.unlink(missing_ok=True)
    losses = [loss for loss in _repair(workspace) if loss]
    assert any("which is not known any more" in loss for loss in losses)
    assert problems_of(workspace) == []
    assert 3 not in numbers_of(workspace)


@pytest.mark.slow
def test_nothing_is_lost_to_a_folder_that_is_not_mounted(workspace: Settings) -> None:
    folder = workspace.file.parent / "in"
    folder.rename(folder.with_name("unmounted"))
    for path in data_files(workspace):
        path.unlink()
    with pytest.raises(MoiraeError, match="mount it, or create an empty folder"):
        _repair(workspace)
    folder.with_name("unmounted").rename(folder)
    _repair(workspace)
    assert numbers_of(workspace) == list(range(50))
    assert problems_of(workspace) == []


@pytest.mark.slow
def test_rows_of_compacted_units_are_read_again_from_moved_files(workspace: Settings) -> None:
    with connect_database(workspace, "tests") as connection:
        units = UnitGateway(connection)
        units.compact("cpu", [unit.id for unit in units.list_ledger("cpu")])
        LedgerCompaction(connection).drop_dead_letters(timedelta(0), 100)
        units.compact("cpu", [unit.id for unit in units.list_ledger("cpu") if unit.unit])
    for path in data_files(workspace):
        path.unlink()
    _repair(workspace)
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(50))
    with connect_database(workspace, "tests") as connection:
        (lost,) = RepairGateway(connection).list_lost()
    assert (lost.unit, lost.rows) == ("", 10)


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 2, 3])
@pytest.mark.parametrize("damage", [_truncate, lambda path: path.write_bytes(b""), Path.unlink])
def test_lost_commits_are_made_again_from_the_data_files(
    workspace: Settings, version: int, damage: Callable[[Path], None]
) -> None:
    commits = sorted(log_folder(workspace).glob("*.json"))
    if damage is Path.unlink and version == len(commits) - 1:
        pytest.skip("only the ledger knows that there was another commit")
    damage(commits[version])
    assert problems_of(workspace) != []
    _repair(workspace, dry_run=True)
    assert problems_of(workspace) != []
    _repair(workspace)
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(60))
    with filled(workspace) as archive:
        archive.post(range(60, 70))
        archive.archive()
    assert numbers_of(workspace) == list(range(70))
    assert problems_of(workspace) == []


@pytest.mark.slow
def test_lost_commit_of_a_clustering_brings_no_row_twice(workspace: Settings) -> None:
    with filled(workspace) as archive:
        archive.writer.tables["cpu"].cluster(0)
        archive.post(range(60, 70))
        archive.archive()
    commits = sorted(log_folder(workspace).glob("*.json"))
    _truncate(commits[-2])
    _repair(workspace)
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(70))


@pytest.mark.slow
def test_commits_are_taken_from_a_backup(workspace: Settings) -> None:
    backups = workspace.file.parent / "backups"
    make_backup(workspace, backups)
    commits = sorted(log_folder(workspace).glob("*.json"))
    content = commits[2].read_bytes()
    _truncate(commits[2])
    assert _repair(workspace, backups) == [""]
    assert commits[2].read_bytes() == content
    assert problems_of(workspace) == []


@pytest.mark.slow
def test_damaged_checkpoint_is_set_aside(workspace: Settings) -> None:
    DeltaTable(log_folder(workspace).parent).create_checkpoint()
    (checkpoint,) = log_folder(workspace).glob("*.checkpoint.parquet")
    _truncate(checkpoint)
    assert problems_of(workspace) != []
    assert set(_repair(workspace)) == {""}
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(60))


@pytest.mark.slow
def test_older_database_takes_the_rows_of_the_archive_into_its_ledger(
    workspace: Settings, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    with (
        connect_database(workspace, "tests") as connection,
        read_snapshot(connection) as snapshot,
        open_dump(database_dsn(workspace), snapshot.id) as content,
    ):
        dump.write_bytes(content.read())
    with filled(workspace) as archive:
        archive_file(archive, "third.jsonl", range(60, 160))
        archive.post(range(160, 170))
        archive.archive()
    with connect_database(workspace, "tests") as connection:
        connection.execute("DROP SCHEMA public, dashboard CASCADE; CREATE SCHEMA public")
    restore_dump(database_dsn(workspace), dump)
    assert problems_of(workspace) != []
    _repair(workspace)
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(170))
    with filled(workspace) as archive:
        (workspace.file.parent / "done" / "third.jsonl").unlink()
        archive_file(archive, "third.jsonl", range(60, 180))
    assert numbers_of(workspace) == list(range(180))
    assert problems_of(workspace) == []


@pytest.mark.slow
def test_newer_database_reads_the_rows_again_that_the_archive_lacks(workspace: Settings) -> None:
    copy = workspace.file.parent / "copy"
    shutil.copytree(workspace.archive, copy)
    with filled(workspace) as archive:
        archive_file(archive, "third.jsonl", range(60, 100))
    shutil.rmtree(workspace.archive)
    shutil.copytree(copy, workspace.archive)
    assert problems_of(workspace) != []
    _repair(workspace)
    assert problems_of(workspace) == []
    assert numbers_of(workspace) == list(range(100))


@pytest.mark.parametrize("remains", ["nothing", "a table that was made again"])
def test_table_that_is_gone_is_taken_from_a_backup(
    workspace: Settings, public_folder: Path, remains: str
) -> None:
    backups = public_folder / f"backups-{remains.count(' ')}"
    make_backup(workspace, backups)
    with filled(workspace) as archive:
        archive_file(archive, "later.jsonl", range(60, 70))
    expected = numbers_of(workspace)
    table = Path(workspace.archive) / "streams" / "cpu"
    shutil.rmtree(table)
    if remains != "nothing":
        with pytest.raises(LogDamaged, match="0 appends, 4 according to"), filled(workspace):
            pass
    # A backup of it would let good ones expire.
    with pytest.raises(MoiraeError, match=r"streams/cpu: the table is missing or empty, 70 rows"):
        make_backup(workspace, backups)
    (loss,) = _repair(workspace, backups, dry_run=True)
    assert loss.startswith("what came since the backup")
    _repair(workspace, backups)
    assert numbers_of(workspace) == expected
    assert problems_of(workspace) == []
    assert make_backup(workspace, backups).rows == 70


def test_rows_of_a_table_that_no_backup_has_are_read_again(workspace: Settings) -> None:
    table = Path(workspace.archive) / "streams" / "cpu"
    shutil.rmtree(table)
    (loss,) = _repair(workspace, dry_run=True)
    assert loss == "60 rows, except those whose records can be read again"
    assert not table.exists()
    assert sum("10 rows" in loss for loss in _repair(workspace)) == 1
    assert numbers_of(workspace) == list(range(50))
    assert problems_of(workspace) == []


class _Killed(BaseException):
    """The process ends here."""


def _kill_at_write(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A file of the archive, counted from 0, is never completed."""
    write_stream = LocalStorage.write_stream
    remaining = count(number, -1)

    @contextmanager
    def interrupted(storage: LocalStorage, name: str, **options: Any) -> Iterator[Any]:
        with write_stream(storage, name, **options) as file:
            yield file
            if next(remaining) == 0:
                raise _Killed

    monkeypatch.setattr(LocalStorage, "write_stream", interrupted)


@pytest.mark.slow
def test_killed_copy_of_a_table_is_begun_again(workspace: Settings, public_folder: Path) -> None:
    backups = public_folder / "backups"
    make_backup(workspace, backups)
    table = Path(workspace.archive) / "streams" / "cpu"
    for number in count():
        shutil.rmtree(table)
        with pytest.MonkeyPatch.context() as patched:
            _kill_at_write(patched, number)
            try:
                _repair(workspace, backups)
                break
            except _Killed:
                pass
        _repair(workspace, backups)
        assert numbers_of(workspace) == list(range(60))
        assert problems_of(workspace) == []
    assert number > len(data_files(workspace)) + 3  # files of the log, too


@pytest.mark.slow
def test_doctor_creates_no_table(public_folder: Path) -> None:
    settings = make_file_workspace(public_folder / "workspace")
    assert problems_of(settings) == []
    assert not Path(settings.archive).exists()
    with filled(settings) as archive:
        archive_file(archive, "first.jsonl", range(40))
    table = Path(settings.archive) / "streams" / "cpu"
    shutil.rmtree(table)
    (problem,) = problems_of(settings)
    assert "the table is missing, 40 rows according to the ledger" in problem
    assert not table.exists()
    stop_database(settings)
    shutil.rmtree(settings.file.parent)


@pytest.mark.slow
def test_repair_refuses_what_are_no_backups_of_the_workspace(
    workspace: Settings, public_folder: Path
) -> None:
    backups = public_folder / "others"
    other = make_file_workspace(public_folder / "other")
    with filled(other) as archive:
        archive_file(archive, "first.jsonl", range(100, 140))
    make_backup(other, backups)
    stop_database(other)
    shutil.rmtree(other.file.parent)
    shutil.rmtree(Path(workspace.archive) / "streams" / "cpu")
    with pytest.raises(Conflict, match="holds backups of another workspace"):
        _repair(workspace, backups)
    with pytest.raises(NotFound, match="is no folder of backups"):
        _repair(workspace, public_folder / "mistyped")
