"""A small workspace whose archive tests fill, back up and restore, without other processes."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from archiver.chunks.chunk import CutPolicy
from archiver.delta.sequenced_table import EVENTS, SequencedTable
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.storage.base import LocalStorage
from archiver.times import to_micros
from moirae.backup.creation import BackupOptions
from moirae.backup.encryption import PlainCipher
from moirae.backup.manifest import Manifest
from moirae.backup.repository import Repository
from moirae.backup.runs import back_up
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.inspect.doctor import run_checks
from moirae.live.sources.landing import LandingFolders
from moirae.runtime.database import connect_database, release_database
from moirae.runtime.storage import Landings, open_storage

WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, n: int}
    time: ts
    id: [n]
    key: [host]
    source: {http: true}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
chunks: {rows: 40, age: 1d}
rules: [rules/*.yaml]
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


def make_workspace(folder: Path) -> Settings:
    """The files of the workspace in a folder."""
    (folder / "rules").mkdir(parents=True)
    (folder / "moirae.yaml").write_text(WORKSPACE)
    (folder / "hosts.csv").write_text("host,site\na,x\n")
    (folder / "rules" / "load.yaml").write_text("groups: []\n")
    return load_settings_from_environment(folder / "moirae.yaml")


class Filled:
    """An open archive of the workspace, to which batches are posted."""

    def __init__(self, settings: Settings, connection: Any) -> None:
        self.settings = settings
        self.connection = connection
        self.landing = Landings.of(settings).open("cpu")
        schemas = [stream_schema(name, stream) for name, stream in settings.streams.items()]
        policy = CutPolicy(40, to_micros(datetime.fromtimestamp(86_400, UTC)))
        self.writer = ArchiveWriter(
            open_storage(settings), schemas, policy, connection, lambda: None
        )
        SequencedTable(open_storage(settings), EVENTS)

    def post(self, numbers: Sequence[int], name: str | None = None) -> None:
        """Accept a batch of rows with these numbers."""
        lines = [
            json.dumps({"ts": str(START + timedelta(seconds=n)), "host": "a", "n": n})
            for n in numbers
        ]
        content = "\n".join(lines).encode()
        self.landing.write_batch(name or f"push-{numbers[0]}", ".jsonl", content)

    def units(self) -> list[SourceUnit]:
        """The accepted batches."""
        landings = Landings.of(self.settings)
        landings.refresh()
        folders = LandingFolders(landings, self.settings.streams)
        return list(folders.list_units("cpu"))

    def archive(self) -> None:
        """Archive the accepted batches, and remove them."""
        units = self.units()
        self.writer.ingest(units, to_micros(START + timedelta(days=1)))
        for unit in units:
            self.landing.remove(unit.path)

    def archive_each(self, numbers: Sequence[int]) -> None:
        """Archive a batch of one row for each number."""
        for number in numbers:
            self.post([number])
            self.archive()


@contextmanager
def filled(settings: Settings) -> Iterator[Filled]:
    """The archive of a workspace, open."""
    with connect_database(settings, "tests") as connection:
        yield Filled(settings, connection)


def repository(folder: Path) -> Repository:
    """A folder of backups that are not encrypted."""
    return Repository(LocalStorage(folder), PlainCipher())


def make_backup(settings: Settings, folder: Path, **options: Any) -> Manifest:
    """Back up a workspace into a folder."""
    return back_up(settings, repository(folder), BackupOptions(**options))


def numbers_of(settings: Settings, appends: int | None = None) -> list[int]:
    """The archived rows of a workspace, in order; of its first appends, if so many are given."""
    with connect_database(settings, "tests") as connection:
        table = Filled(settings, connection).writer.tables["cpu"]
        rows = table.read(["n", "_append"])
    if appends is not None:
        rows = rows.filter([append <= appends for append in rows["_append"].to_pylist()])
    return sorted(rows["n"].to_pylist())


def problems_of(settings: Settings) -> list[str]:
    """What `moirae doctor` finds wrong with a workspace."""
    with connect_database(settings, "tests") as connection:
        findings = run_checks(settings, connection)
    return [f"{finding.check}: {problem}" for finding in findings for problem in finding.problems]


def stop_database(settings: Settings) -> None:
    """Stop the embedded database of a workspace."""
    release_database(settings)
