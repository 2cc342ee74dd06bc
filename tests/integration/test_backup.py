"""Backups of a workspace that goes on, and restoring them: nothing is lost, nothing is there twice."""

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

import sql
from archiver.threads import start_thread
from moirae.backup import creation, restoration, state
from moirae.backup.creation import BackupOptions
from moirae.backup.destination import open_repository
from moirae.backup.encryption import AgeCipher
from moirae.backup.postgresql import open_dump, restore_dump
from moirae.backup.repository import Repository
from moirae.backup.restoration import Restoration
from moirae.backup.runs import back_up, run_backups
from moirae.backup.verification import verify_backup
from moirae.config import EXTERNAL_ALERTS, BackupSettings
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import BackupDamaged, Conflict, MoiraeError, NotFound, Stopped, UsageError
from moirae.inspect.backups import describe_backups
from moirae.inspect.status import collect_status
from moirae.live.file_checks import FileChecks
from moirae.runtime import release_embedded_database
from moirae.runtime.database import connect_database, database_dsn
from moirae.runtime.storage import (
    check_generation,
    open_storage,
    read_archive_identity,
    write_archive_identity,
)
from sql.archive import FileCheckGateway
from sql.processes import ProcessGateway
from sql.workspace import BackupGateway, WorkspaceGateway
from tests.backups import (
    filled,
    make_backup,
    make_workspace,
    numbers_of,
    problems_of,
    repository,
    stop_database,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def original(public_folder: Path) -> Iterator[Settings]:
    """A workspace with 60 archived rows in two chunks."""
    settings = make_workspace(public_folder / "original")
    with filled(settings) as archive:
        archive.post(range(40))
        archive.archive()
        archive.archive_each(range(40, 60))
        check_generation(settings, archive.connection)
    yield settings
    stop_database(settings)


@pytest.fixture
def folder(public_folder: Path) -> Iterator[Path]:
    """An empty folder, of a name of its own, for backups and what is restored from them."""
    path = Path(tempfile.mkdtemp(dir=public_folder))
    path.chmod(0o755)
    yield path
    for users in path.rglob("postgresql.users"):  # also of a restore that failed
        release_embedded_database(users.parent)
    shutil.rmtree(path)


def _restore(backups: Path, target: Path, name: str | None = None) -> Settings:
    """Restore a backup into a new workspace."""
    source = repository(backups)
    restoration = Restoration(source, source.get(name))
    files = restoration.restore_workspace_files(target)
    settings = load_settings_from_environment(files.workspace_file)
    restoration.check_empty(settings)
    restoration.restore(settings)
    return settings


@pytest.mark.slow
def test_workspace_is_restored_and_goes_on(original: Settings, folder: Path) -> None:
    first = make_backup(original, folder / "backups")
    assert (first.rows, first.previous) == (60, None)
    with filled(original) as archive:
        archive.archive_each(range(60, 65))
        archive.post(range(65, 70), "push-waiting")
        second = make_backup(original, folder / "backups", since=first.name)
        archive.archive()
        archive.archive_each(range(70, 72))
    copied = sum(len(table.files) for table in second.tables.values()) - sum(
        len(table.files) for table in first.tables.values()
    )
    assert (second.rows, second.previous, copied) == (65, first.name, 5)
    assert second.tables["streams/cpu"].number == first.tables["streams/cpu"].number + 5

    verification = verify_backup(
        repository(folder / "backups"), second, folder / "beside", lambda copied, total: None
    )
    assert (verification.is_good, verification.rows) == (True, 65)

    settings = _restore(folder / "backups", folder / "restored")
    appends = second.tables["streams/cpu"].number
    assert numbers_of(settings) == numbers_of(original, appends) == list(range(65))
    assert problems_of(settings) == []
    with filled(settings) as archive:
        identity = WorkspaceGateway(archive.connection).get()
        assert (identity.id, identity.generation) == (first.workspace, 2)
        assert (identity.restored_from, identity.backed_up_at) == (second.name, second.taken_at)
        assert ProcessGateway(archive.connection).list_all() == []
        check_generation(settings, archive.connection)
        # What the ledger knows is not read again; the batch that waited is.
        assert [unit.name for unit in archive.units()] == ["push-waiting"]
        archive.archive()
        archive.archive_each([64, 70])
    assert numbers_of(settings) == [*range(70), 70]
    assert problems_of(settings) == []
    assert (settings.file.parent / "rules" / "load.yaml").is_file()
    assert (settings.file.parent / "hosts.csv").read_text() == "host,site\na,x\n"

    with pytest.raises(Conflict, match=r"generation 1, and was restored elsewhere .*generation 2"):
        make_backup(original, folder / "backups")
    assert make_backup(settings, folder / "backups").generation == 2
    with pytest.raises(Conflict, match="is not empty"):
        _restore(folder / "backups", folder / "restored")
    stop_database(settings)


def test_killed_backup_continues_and_is_never_taken_for_complete(
    original: Settings, folder: Path
) -> None:
    backups = folder / "backups"
    copies = 0

    def kill(copied: int, total: int) -> None:
        nonlocal copies
        copies += 1
        if copies == 5:
            raise KeyboardInterrupt

    with patch.object(creation, "_RECORD_FILES", 1), pytest.raises(KeyboardInterrupt):
        make_backup(original, backups, report=kill)
    with pytest.raises(NotFound, match="no complete backup"):
        repository(backups).get(None)
    manifest = make_backup(original, backups)
    data_bytes = sum(entry.bytes for _, _, entry in manifest.data_files())
    part_bytes = sum(entry.bytes for entry in manifest.parts.values())
    assert part_bytes < manifest.new_bytes < data_bytes + part_bytes
    assert repository(backups).list_incomplete() == []
    with connect_database(original, "tests") as connection:
        last = BackupGateway(connection).get_last(str(repository(backups)))
        assert last is not None
        assert (last.name, last.rows) == (manifest.name, manifest.rows)


def test_backup_that_is_told_to_stop_is_continued_and_no_failure(
    original: Settings, folder: Path
) -> None:
    backups = folder / "backups"
    copied: list[int] = []

    def check_stop() -> None:
        if len(copied) == 5:
            raise Stopped("stopped")

    with pytest.raises(Stopped):
        make_backup(
            original, backups, report=lambda done, _: copied.append(done), check_stop=check_stop
        )
    with connect_database(original, "tests") as connection:
        assert BackupGateway(connection).get_last_failure(str(repository(backups))) is None
    manifest = make_backup(original, backups)
    data_bytes = sum(entry.bytes for _, _, entry in manifest.data_files())
    part_bytes = sum(entry.bytes for entry in manifest.parts.values())
    assert part_bytes < manifest.new_bytes < data_bytes + part_bytes


def test_identities_are_read_where_commits_do_not_hold_them(
    original: Settings, folder: Path
) -> None:
    """As those of earlier versions."""
    known = make_backup(original, folder / "known").tables["streams/cpu"]
    tag = re.compile(rb',"moirae.ids":"[^"]*"')
    for commit in (open_storage(original) / "streams" / "cpu" / "_delta_log").glob("*.json"):
        commit.write_bytes(tag.sub(b"", commit.read_bytes()))
    read = make_backup(original, folder / "read").tables["streams/cpu"]
    assert known.row_ids.count >= 60
    assert read.files == known.files


@pytest.mark.slow
def test_only_what_the_snapshot_counts_is_backed_up(original: Settings, folder: Path) -> None:
    """Rows are appended at any moment while one state is taken."""
    read_version = state.read_newest_version
    with filled(original) as archive:
        numbers = iter(range(1000, 1100))
        posted: list[int] = []

        def append(table: Any) -> int:
            if table.kind == "stream" and table.stream != EXTERNAL_ALERTS:
                number = next(numbers)
                posted.append(number)
                archive.archive_each([number])
            version = read_version(table)
            if table.kind == "stream" and table.stream != EXTERNAL_ALERTS:
                number = next(numbers)
                posted.append(number)
                archive.archive_each([number])
            return version

        with patch.object(state, "read_newest_version", append):
            manifest = make_backup(original, folder / "backups")
    assert len(posted) == 4
    settings = _restore(folder / "backups", folder / "restored")
    assert problems_of(settings) == []
    restored = [number for number in numbers_of(settings) if number >= 1000]
    assert restored == posted[:2]
    assert manifest.accounting["cpu"].archived == manifest.rows
    stop_database(settings)


@pytest.mark.slow
def test_rows_whose_unit_is_not_counted_yet_are_counted_by_the_restored_workspace(
    original: Settings, folder: Path
) -> None:
    with filled(original) as archive:
        archive.post([2000], "push-begun")
        with (
            patch.object(type(archive.writer), "_finish_units", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            archive.archive()
        make_backup(original, folder / "backups")
    with filled(original) as archive:
        archive.archive()
    settings = _restore(folder / "backups", folder / "restored")
    assert 2000 in numbers_of(settings)
    assert problems_of(settings) == []
    with filled(settings) as archive:
        archive.archive()
    assert numbers_of(settings).count(2000) == 1
    assert problems_of(settings) == []
    stop_database(settings)


@pytest.mark.slow
def test_encrypted_backup_needs_its_key_and_shows_changes(original: Settings, folder: Path) -> None:
    key = str(creation_key())
    encrypted = Repository(repository(folder / "backups")._storage, AgeCipher(key))
    creation.create_backup(original, encrypted, creation.BackupOptions())
    stored = b"".join(path.read_bytes() for path in (folder / "backups").rglob("*.parquet"))
    assert b"PAR1" not in stored
    assert stored.startswith(b"age-encryption.org/v1")
    with pytest.raises(Conflict, match="are encrypted for age1"):
        repository(folder / "backups").get(None)
    with pytest.raises(Conflict, match="for another key"):
        Repository(encrypted._storage, AgeCipher(str(creation_key()))).get(None)
    manifest = encrypted.get(None)
    damaged = next((folder / "backups" / "files").rglob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(BackupDamaged, match=r"\.parquet: changed or truncated"):
        verify_backup(encrypted, manifest, folder / "beside", lambda copied, total: None)


def creation_key() -> Any:
    import pyrage

    return pyrage.x25519.Identity.generate()


@pytest.mark.slow
def test_damaged_file_of_a_backup_is_not_restored(original: Settings, folder: Path) -> None:
    backups = folder / "backups"
    manifest = make_backup(original, backups)
    damaged = next((backups / "files" / "streams").rglob("*.parquet"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-9] + b"x" + content[-8:])
    with pytest.raises(BackupDamaged, match="is not the file that was backed up"):
        _restore(backups, folder / "restored")
    settings = load_settings_from_environment(folder / "restored" / "moirae.yaml")
    with pytest.raises(MoiraeError, match=f"restore of backup {manifest.name} is not complete"):
        connect_database(settings, "tests").close()
    # It continues when the cause is gone, also if a power failure has taken what was in memory.
    damaged.write_bytes(content)
    restored = Restoration(repository(backups), manifest)
    restored.check_empty(settings)
    with (
        patch.object(restoration, "begin_generation", side_effect=OSError("power failure")),
        pytest.raises(OSError, match="power failure"),
    ):
        restored.restore(settings)
    for written in filter(Path.is_file, Path(settings.archive).rglob("*")):
        written.write_bytes(bytes(written.stat().st_size))
    assert restored.restore(settings) == 2
    assert problems_of(settings) == []
    stop_database(settings)
    damaged.unlink()
    with pytest.raises(BackupDamaged, match="is missing"):
        _restore(backups, folder / "again")


def test_file_that_was_vacuumed_before_it_was_copied_begins_another_state(
    original: Settings, folder: Path
) -> None:
    states = 0
    copy = creation._FileCopier.copy

    def fail_once(copier: Any, file: Any) -> Any:
        nonlocal states
        states += 1
        if states == 1:
            raise creation._FileRemoved("x.parquet")
        return copy(copier, file)

    with patch.object(creation._FileCopier, "copy", fail_once):
        make_backup(original, folder / "backups")
    assert len(repository(folder / "backups").survey().complete) == 1


def test_process_whose_generation_differs_from_the_archive_is_refused(original: Settings) -> None:
    with connect_database(original, "tests") as connection:
        identity = WorkspaceGateway(connection).get()
        assert read_archive_identity(original) == (identity.id, 1)
        write_archive_identity(original, identity.id, 2)
        with pytest.raises(MoiraeError, match="this database is of generation 1"):
            check_generation(original, connection)
        write_archive_identity(original, identity.id, 1)
        check_generation(original, connection)


@pytest.mark.slow
def test_folder_of_another_workspace_is_refused(original: Settings, folder: Path) -> None:
    make_backup(original, folder / "backups")
    other = make_workspace(folder / "other")
    with filled(other) as archive:
        archive.archive_each([1])
    with pytest.raises(Conflict, match="backups of another workspace"):
        make_backup(other, folder / "backups")
    with pytest.raises(NotFound, match="no complete backup 'x'"):
        make_backup(original, folder / "backups", since="x")
    stop_database(other)


def test_schedule_makes_backups_and_the_status_tells_their_age(
    original: Settings, folder: Path
) -> None:
    schedule = BackupSettings(to=str(folder / "scheduled"), every=timedelta(hours=1), keep=1)
    settings = original.model_copy(update={"backup": schedule})
    settings._file = original.file
    with connect_database(settings, "tests") as connection:
        assert describe_backups(connection, schedule)["last"] is None
        make_backup(settings, folder / "scheduled")
        connection.execute(
            "UPDATE backups SET taken_at = taken_at - interval '3 hours' WHERE destination = %s",
            [schedule.to],
        )
        status = describe_backups(connection, schedule)
        assert status["is_overdue"]
        assert status["age_seconds"] is not None
        assert status["age_seconds"] > 3 * 3600
        stop = threading.Event()
        process = start_thread(lambda: run_backups(settings, stop), "backups")
        wait_until(lambda: not describe_backups(connection, schedule)["is_overdue"], 60)
        wait_until(lambda: len(repository(folder / "scheduled").survey().complete) == 1, 60)
        stop.set()
        process.result(30)
        status = describe_backups(connection, schedule)
        assert (status["failure"], status["is_overdue"]) == (None, False)
        processes = {row.role: row.state for row in ProcessGateway(connection).list_all()}
        assert processes["backup"] == "ended"
    (manifest,) = repository(folder / "scheduled").survey().complete
    assert manifest.rows == status["last"]["rows"]


def test_failed_backup_is_in_the_status(original: Settings, folder: Path) -> None:
    (folder / "file").write_text("no folder")
    schedule = BackupSettings(to=str(folder / "file"))
    with connect_database(original, "tests") as connection:
        with pytest.raises(OSError, match="Not a directory"):
            make_backup(original, folder / "file")
        status = describe_backups(connection, schedule)
        assert status["failure"] is not None
        assert "Not a directory" in status["description"]


def test_folder_that_would_be_lost_with_the_workspace_is_refused(original: Settings) -> None:
    for folder in (Path(original.home) / "backups", Path(original.archive)):
        with pytest.raises(UsageError, match="which is backed up: use a folder on another disk"):
            make_backup(original, folder)


def test_folder_whose_disk_is_gone_is_not_taken_for_a_new_one(
    original: Settings, folder: Path
) -> None:
    backups = folder / "backups"
    first = make_backup(original, backups)
    backups.rename(folder / "unmounted")
    backups.mkdir()
    with pytest.raises(Conflict, match=f"is empty, although backup {first.name} was made there"):
        make_backup(original, backups)
    (backups / "backups").mkdir()
    assert make_backup(original, backups).previous is None


def test_backups_go_on_after_a_clock_was_set_back(original: Settings, folder: Path) -> None:
    schedule = BackupSettings(to=str(folder / "backups"), every=timedelta(hours=1))
    settings = original.model_copy(update={"backup": schedule})
    settings._file = original.file
    with connect_database(settings, "tests") as connection:
        first = make_backup(settings, folder / "backups")
        connection.execute(
            "UPDATE backups SET started_at = started_at + interval '1 year',"
            " taken_at = taken_at + interval '1 year' WHERE name = %s",
            [first.name],
        )
        later = f"2999{first.name[4:]}"
        (folder / "backups" / "backups" / first.name).rename(folder / "backups" / "backups" / later)
        manifest = folder / "backups" / "backups" / later / "manifest.json"
        manifest.write_text(manifest.read_text().replace(first.name, later))
        stop = threading.Event()
        process = start_thread(lambda: run_backups(settings, stop), "backups")
        wait_until(lambda: len(repository(folder / "backups").survey().complete) == 2, 60)
        status = describe_backups(connection, schedule)
        stop.set()
        process.result(30)
    newest = repository(folder / "backups").get(None)
    assert newest.previous == later
    assert newest.name > later
    assert status["last"] is not None
    assert status["age_seconds"] < 3600


@pytest.mark.slow
def test_backup_in_object_storage_is_restored(
    original: Settings, folder: Path, bucket: str
) -> None:
    backups = open_repository(bucket, None)
    first = back_up(original, backups, BackupOptions())
    second = back_up(original, backups, BackupOptions())
    assert [manifest.name for manifest in backups.survey().complete] == [first.name, second.name]
    assert second.new_bytes == sum(entry.bytes for entry in second.parts.values())
    restoration = Restoration(backups, backups.get(None))
    files = restoration.restore_workspace_files(folder / "restored")
    settings = load_settings_from_environment(files.workspace_file)
    # The archive, too.
    settings = settings.model_copy(update={"archive": f"{bucket}-archive"})
    restoration.check_empty(settings)
    assert restoration.restore(settings) == 2
    assert problems_of(settings) == []
    assert len(numbers_of(settings)) == second.rows
    with filled(settings) as archive:
        archive.archive_each([5000])
    third = back_up(settings, backups, BackupOptions(), keep=1)
    assert (third.rows, third.generation) == (second.rows + 1, 2)
    assert [manifest.name for manifest in backups.survey().complete] == [third.name]
    stop_database(settings)


@pytest.mark.slow
def test_external_database_is_dumped_or_compared(
    original: Settings, folder: Path, public_folder: Path
) -> None:
    """The embedded server of the workspace serves as the external one."""
    dsn = database_dsn(original)
    with sql.connect(dsn, application_name="tests") as connection:
        connection.execute("CREATE DATABASE restored")
        connection.execute("CREATE DATABASE compared")
    backups = folder / "backups"
    make_backup(original, backups)
    source = repository(backups)
    restoration = Restoration(source, source.get(None))
    files = restoration.restore_workspace_files(folder / "restored")
    settings = load_settings_from_environment(files.workspace_file)
    external = settings.model_copy(
        update={"database": SecretStr(make_conninfo(dsn, dbname="restored"))}
    )
    restoration.check_empty(external)
    restoration.restore(external)
    assert problems_of(external) == []
    # With a database that was restored by other tools, and is of another moment.
    without = make_backup(external, folder / "backups", dump_database=False)
    assert not without.has_database
    compared = settings.model_copy(
        update={
            "database": SecretStr(make_conninfo(dsn, dbname="compared")),
            "home": folder / "compared",
            "archive": str(folder / "compared" / "archive"),
        }
    )
    restoration = Restoration(source, without)
    restoration.check_empty(compared)
    with pytest.raises(MoiraeError, match="the database is empty: restore it first"):
        restoration.restore(compared)
    with open_dump(database_dsn(external), _export_snapshot(external)) as dump:
        (folder / "dump").write_bytes(dump.read())
    restore_dump(database_dsn(compared), folder / "dump")
    with sql.connect(database_dsn(compared), application_name="tests") as connection:
        connection.execute("UPDATE units SET read = read + 1, duplicates = duplicates + 1")
    with pytest.raises(Conflict, match="does not fit to backup"):
        restoration.restore(compared)
    with sql.connect(database_dsn(compared), application_name="tests") as connection:
        connection.execute("UPDATE units SET read = read - 1, duplicates = duplicates - 1")
    assert restoration.restore(compared) == 3
    assert problems_of(compared) == []


_SNAPSHOTS: list[Any] = []


def _export_snapshot(settings: Settings) -> str:
    connection = sql.connect(database_dsn(settings), application_name="tests")
    _SNAPSHOTS.append(connection)
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone()  # type: ignore[misc]
    return str(snapshot)


@pytest.fixture(autouse=True)
def _close_snapshots() -> Iterator[None]:
    yield
    while _SNAPSHOTS:
        _SNAPSHOTS.pop().close()


def test_changed_byte_is_found_by_doctor_and_background_checks_and_is_not_backed_up(
    original: Settings, folder: Path
) -> None:
    with filled(original) as archive:
        (path,) = archive.writer.tables["cpu"].local_paths(chunk=0)[:1]
        content = Path(path).read_bytes()
        changed = bytearray(content)
        changed[len(content) // 3] ^= 1
        Path(path).write_bytes(changed)
        try:
            checks = FileCheckGateway(archive.connection)
            FileChecks(open_storage(original), checks, timedelta(0)).run_once()
            FileChecks(open_storage(original), checks, timedelta(0)).run_once()
            (problem,) = checks.list_problems()
            assert problem.table_name == "streams/cpu"
            assert "SHA-256 differs" in problem.problem
            status = collect_status(archive.connection, open_storage(original))
            assert [file["path"] for file in status["damaged_files"]] == [problem.path]
            assert any("SHA-256 differs" in text for text in problems_of(original))
            with pytest.raises(MoiraeError, match="is not what was written"):
                make_backup(original, folder / "backups")
            assert "dump" not in {thread.name for thread in threading.enumerate()}
        finally:
            Path(path).write_bytes(content)
        FileChecks(open_storage(original), checks, timedelta(0)).run_once()
        assert checks.list_problems() == []
