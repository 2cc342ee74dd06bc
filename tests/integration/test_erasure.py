"""Rows are erased with all that follows from them: no byte of their values is in any file."""

import gzip
import json
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

import sql
from archiver.chunks import Compaction
from archiver.delta.derived_tables import open_or_create_table
from archiver.executors import ExecutorIngest
from archiver.ingest.engines import EngineMode, EnginePolicy
from archiver.storage import ObjectFolder
from moirae.cli import app
from moirae.config.settings import load_settings_from_environment
from moirae.erasure import Eraser, ErasureCondition
from moirae.erasure.processes import hold_erasure_lock
from moirae.runtime import Role
from moirae.runtime.database import connect_database, release_database
from sql.archive import DerivedChunkGateway, UnitGateway
from sql.archive.erased_records import DELETED_TABLES, EXEMPT_TABLES, MASKED_TABLES
from sql.processes import ProcessGateway
from sql.workspace import purge, rewrite_tables
from tests.backups import START, Filled, filled, make_backup, problems_of
from tests.derived_chunks import replace_chunk
from tests.inline_jobs import InlineJobs
from tests.workspaces import create_database

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: int, user: string}
    time: ts
    id: [n]
    key: [host]
    source: {http: true}
chunks: {rows: 40, age: 1d}
rules: [rules/*.yaml]
"""
SECRET = "erase-me-7f3a91"
OTHER = "somebody-else"


@pytest.fixture
def archive(public_folder: Path, request: pytest.FixtureRequest) -> Iterator[Filled]:
    """Several chunks, of which the first is compact, with rows of two users in each."""
    with filled_archive(public_folder / request.node.name, WORKSPACE) as opened:
        yield opened


@contextmanager
def filled_archive(folder: Path, workspace: str) -> Iterator[Filled]:
    """The archive of a workspace file in a new folder, with rows."""
    (folder / "rules").mkdir(parents=True)
    (folder / "moirae.yaml").write_text(workspace)
    settings = load_settings_from_environment(folder / "moirae.yaml")
    try:
        with filled(settings) as opened:
            for start in range(0, 160, 40):
                post(opened, range(start, start + 40))
            tables = [opened.writer.tables["cpu"]]
            compaction = Compaction(tables, opened.writer.catalog.settled_places)
            for step in compaction.plan({0}):
                compaction.run(step)
            yield opened
    finally:
        release_database(settings)


def make_row(number: int, **changes: Any) -> dict[str, Any]:
    moment = str(START + timedelta(seconds=number))
    user = SECRET if number % 10 == 3 else OTHER
    row = {"ts": moment, "host": "a", "n": number, "user": user}
    if user == SECRET:
        row["note"] = f"note of {SECRET} {number}"  # undeclared: in `_extra`
    return {**row, **changes}


def post(archive: Filled, numbers: Any, **changes: Any) -> None:
    lines = [json.dumps(make_row(number, **changes)) for number in numbers]
    name = f"push-{len(lines)}-{datetime.now(UTC).timestamp()}".replace(".", "-")
    archive.landing.write_batch(name, ".jsonl", "\n".join(lines).encode())
    archive.archive()


def erase(archive: Filled, where: str = f"user = '{SECRET}'") -> Any:
    eraser = Eraser(archive.settings, archive.connection)
    condition = ErasureCondition(where)
    choice = eraser.choose(condition, [])
    return eraser.finish(eraser.start(condition, choice))


def files_with(folder: Path, text: str = SECRET) -> list[str]:
    """The files below a folder that hold a text."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                if content.find(text.encode()) >= 0:
                    found.append(str(path.relative_to(folder)))
    return found


def objects_with(url: str, text: str = SECRET) -> list[str]:
    """The objects below a URL that hold a text."""
    found: list[str] = []
    for listed in ObjectFolder(url).list():
        with listed.path.open() as file:
            if text.encode() in file.read():
                found.append(str(listed.path))
    return found


def archived_users(archive: Filled) -> list[tuple[int, str]]:
    table = archive.writer.tables["cpu"]
    table.refresh()
    rows = table.read(["n", "user"]).to_pylist()
    return sorted((row["n"], row["user"]) for row in rows)


def test_no_byte_is_left_in_archive_and_database(archive: Filled) -> None:
    archive.connection.execute(
        "INSERT INTO audit (author, via, operation, arguments) VALUES ('a', 'cli', 'x', %s)",
        (json.dumps({"text": f"about {SECRET} again", "number": 5}),),
    )
    assert files_with(archive.settings.home)
    row = erase(archive)
    assert row.rows == 16
    assert (row.state, row.finished_at is not None) == ("done", True)
    assert files_with(archive.settings.home) == []
    assert archived_users(archive) == [(n, OTHER) for n in range(160) if n % 10 != 3]
    ((arguments,),) = archive.connection.execute(
        "SELECT arguments FROM audit WHERE operation = 'x'"
    ).fetchall()
    assert arguments == {"text": "about [erased] again", "number": 5}


@pytest.mark.parametrize("mode", ["local", "spark"])
def test_accounting_is_exact_and_repeated_rows_are_duplicates(
    archive: Filled, mode: EngineMode
) -> None:
    erase(archive)
    with filled(archive.settings) as reopened:
        engines = reopened.writer.engines
        engines.policy = EnginePolicy(mode)
        engines.executors = ExecutorIngest(InlineJobs(), engines.sizes)
        post(reopened, [13, 23, 24])
        post(reopened, [33], user="changed", note=None)
        assert engines.stats is not None
        assert engines.stats.engine == mode
        sums = UnitGateway(reopened.connection).sum_by_stream()
        (counts,) = [counts for counts in sums if counts.stream == "cpu"]
        assert (counts.archived, counts.duplicates, counts.conflicts) == (160, 4, 0)
        assert (counts.deleted, counts.erased, counts.erased_again) == (16, 16, 3)
        assert files_with(archive.settings.home) == []
        assert "changed" not in {user for _, user in archived_users(reopened)}
    assert problems_of(archive.settings) == []


def test_unread_batches_lose_their_lines(archive: Filled) -> None:
    lines = [json.dumps(make_row(number)) for number in (203, 204)]
    archive.landing.write_batch("push-unread", ".jsonl", "\n".join(lines).encode())
    erase(archive)
    archive.archive()
    assert [n for n, _ in archived_users(archive) if n > 200] == [204]
    assert files_with(archive.settings.home) == []


def test_archive_and_batches_in_object_storage(public_folder: Path, bucket: str) -> None:
    locations = f"archive: {bucket}/archive\nlanding: {bucket}/landing\n"
    with filled_archive(public_folder / "objects", WORKSPACE + locations) as archive:
        lines = [json.dumps(make_row(number)) for number in (203, 204)]
        archive.landing.write_batch("push-1", ".jsonl", "\n".join(lines).encode())
        archive.landing.write_batch("push-2", ".csv.gz", gzip.compress(SECRET.encode()))
        folders = {url.removeprefix(bucket).split("/")[1] for url in objects_with(bucket)}
        assert folders == {"archive", "landing"}
        row = erase(archive)
        assert (row.rows, row.effects["changed"]["lines of batches"]) == (16, 2)
        assert sum("earlier versions of objects" in place for place in row.effects["places"]) == 2
        assert objects_with(bucket) == []
        assert files_with(archive.settings.home) == []
        archive.archive()
        users = [(n, OTHER) for n in [*range(160), 204] if n % 10 != 3]
        assert archived_users(archive) == users
        assert problems_of(archive.settings) == []


def test_external_database_of_a_role_that_owns_it(public_folder: Path) -> None:
    """Its tables are written anew; what else its server keeps is named."""
    dsn = create_database()
    with sql.connect(dsn, application_name="tests") as superuser:
        superuser.execute("CREATE ROLE erasing LOGIN")
        superuser.execute("CREATE DATABASE erasing OWNER erasing")
    owner = make_conninfo(dsn, user="erasing", dbname="erasing")
    database = f"database: {json.dumps(owner)}\n"
    with filled_archive(public_folder / "external", WORKSPACE + database) as archive:
        archive.connection.execute(
            "INSERT INTO audit (author, via, operation, arguments) VALUES ('a', 'cli', 'x', %s)",
            (json.dumps({"text": SECRET}),),
        )
        row = erase(archive)
        assert row.state == "done"
        (text,) = (place for place in row.effects["places"] if "PostgreSQL" in place)
        assert "write-ahead log" in text
        with sql.connect(dsn, application_name="tests") as superuser:
            superuser.execute("CHECKPOINT")
            ((folder, oid),) = superuser.execute(
                "SELECT current_setting('data_directory'), oid FROM pg_database "
                "WHERE datname = 'erasing'"
            ).fetchall()
        assert files_with(Path(folder) / "base" / str(oid)) == []
        assert files_with(archive.settings.home) == []


def test_dead_letters_and_versions_of_relations_go(archive: Filled) -> None:
    lines = [f'{{"ts": "no time", "user": "{SECRET}"}}', '{"ts": "no time", "user": "x"}']
    archive.landing.write_batch("push-bad", ".jsonl", "\n".join(lines).encode())
    archive.archive()
    for user, site in ((SECRET, "a"), ("x", f"of {SECRET}"), ("y", "b")):
        archive.connection.execute(
            "INSERT INTO relation_versions (relation, key, valid_from, row) VALUES ('r', %s, now(), %s)",
            (json.dumps({"user": user}), json.dumps({"user": user, "site": site})),
        )
    row = erase(archive)
    assert row.effects["changed"]["dead_letters"] == 1
    assert row.effects["changed"]["relation_versions"] == 2
    assert files_with(archive.settings.home) == []
    assert problems_of(archive.settings) == []


def test_derived_streams_are_computed_again(archive: Filled) -> None:
    root = archive.writer.root
    rows = pa.table({"ts": pa.array([START] * 2, pa.timestamp("us", "UTC")), "user": [SECRET, "x"]})
    replace_chunk(open_or_create_table(root, "users", "v1", rows.schema), rows, 0)
    chunks = DerivedChunkGateway(archive.connection)
    chunks.begin_attempt("users", "v1", 0)
    chunks.complete("users", "v1", 0, row_count=2, seconds=0.1)
    assert [(row.stream, row.chunk) for row in chunks.list_readable()] == [("users", 0)]
    row = erase(archive)
    assert row.effects["changed"]["derived/v1/streams/users"] == 1
    assert chunks.list_of_version("users", "v1") == []
    assert files_with(archive.settings.home) == []
    assert problems_of(archive.settings) == []


def test_statistics_of_tables_that_become_empty_go(archive: Filled) -> None:
    archive.connection.execute(
        """INSERT INTO relation_versions (relation, key, valid_from, row)
        SELECT 'r', to_jsonb(n), now(), %s FROM generate_series(1, 50) n""",
        (json.dumps({"user": SECRET}),),
    )
    archive.connection.execute("ANALYZE relation_versions")
    erase(archive)
    assert files_with(archive.settings.home) == []


def test_rewriting_waits_for_sessions_that_see_deleted_rows(archive: Filled) -> None:
    with connect_database(archive.settings, "reader") as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        archive.connection.execute(
            "INSERT INTO audit (author, via, operation, arguments) VALUES ('a', 'cli', 'x', '{}')"
        )
        with pytest.raises(TimeoutError, match="reader"):
            rewrite_tables(archive.connection, timeout=0.1)
        reader.execute("ROLLBACK")
        rewrite_tables(archive.connection)


def test_tables_are_rewritten_where_statistics_are_not_to_be_deleted(
    archive: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a role that is no superuser, of a server whose version has no function for that."""
    monkeypatch.setattr(purge, "_CLEARING_VERSION", 10**9)
    archive.connection.execute("SET ROLE pg_monitor")
    rewrite_tables(archive.connection)
    archive.connection.execute("RESET ROLE")


@pytest.mark.slow
def test_effects_of_interrupted_runs_count(
    archive: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.connection.execute(
        "INSERT INTO audit (author, via, operation, arguments) VALUES ('a', 'cli', 'x', %s)",
        (json.dumps({"text": SECRET}),),
    )
    with monkeypatch.context() as patch:
        patch.setattr(Eraser, "_purge_files", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            erase(archive)
    eraser = Eraser(archive.settings, archive.connection)
    (unfinished,) = eraser.list_unfinished()
    row = eraser.finish(unfinished.id)
    assert row.effects["changed"] == {"audit": 1}
    assert files_with(archive.settings.home) == []


def test_process_that_starts_beside_an_erasure_waits_for_its_end(
    archive: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        connect_database(archive.settings, "live") as connection,
        connect_database(archive.settings, "erasure") as erasure,
    ):
        is_released = threading.Event()

        def release() -> None:
            is_released.set()
            erasure.close()

        timer = threading.Timer(0.5, release)
        start = ProcessGateway.start

        def start_late(self: ProcessGateway, *arguments: Any) -> int:
            if not timer.is_alive() and not is_released.is_set():
                hold_erasure_lock(erasure)
                timer.start()
            return start(self, *arguments)

        monkeypatch.setattr(ProcessGateway, "start", start_late)
        Role(connection, "live", 5.0).fence()
        assert is_released.is_set()


def test_nothing_is_changed_by_a_choice(archive: Filled) -> None:
    paths = {file.path for file in archive.writer.tables["cpu"].data_files()}
    choice = Eraser(archive.settings, archive.connection).choose(
        ErasureCondition(f"user = '{SECRET}' AND n >= 100"), []
    )
    assert {name: len(found) for name, found in choice.rows.items()} == {"cpu": 6}
    assert SECRET not in choice.values  # other rows have it
    assert f"note of {SECRET} 103" in choice.values
    archive.writer.tables["cpu"].refresh()
    assert {file.path for file in archive.writer.tables["cpu"].data_files()} == paths


def test_each_table_says_what_an_erasure_does_with_it(archive: Filled) -> None:
    listed = [*DELETED_TABLES, *MASKED_TABLES, *EXEMPT_TABLES]
    assert sorted(listed) == sorted(set(listed)), "a table is in two lists"
    tables = {
        name
        for (name,) in archive.connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )
    }
    may_hold_text = {
        name
        for (name,) in archive.connection.execute(
            """SELECT DISTINCT table_name FROM information_schema.columns
            WHERE table_schema = 'public' AND data_type IN ('text', 'jsonb', 'bytea', 'ARRAY')"""
        )
    }
    assert may_hold_text & tables <= set(listed), "name new tables in sql/archive/erased_records.py"
    assert set(listed) <= tables, "a list names a table that is gone"


@pytest.mark.slow
def test_restore_of_an_earlier_backup_erases_again(archive: Filled, public_folder: Path) -> None:
    backups = public_folder / "backups"
    earlier = make_backup(archive.settings, backups)
    erase(archive)
    make_backup(archive.settings, backups)  # with the list of erasures
    file = public_folder / "restored" / "moirae.yaml"
    file.parent.mkdir()
    arguments = ["restore", str(backups), "--backup", earlier.name, "--workspace", str(file)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    settings = load_settings_from_environment(file)
    assert files_with(settings.home) == []
    assert problems_of(settings) == []
    with filled(settings) as restored:
        assert archived_users(restored) == [(n, OTHER) for n in range(160) if n % 10 != 3]
        post(restored, [13], user="changed", note=None)
        sums = UnitGateway(restored.connection).sum_by_stream()
        (counts,) = [counts for counts in sums if counts.stream == "cpu"]
        assert (counts.erased, counts.erased_again, counts.duplicates) == (16, 1, 1)
    release_database(settings)
