"""An archive in this process goes on whatever changes in its workspace between starts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunks.chunk import CutPolicy
from archiver.delta import ColumnRewrite
from archiver.executors import ExecutorIngest
from archiver.ingest.engines import EnginePolicy
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.config import FileSource, stream_schema
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.live.sources import LandingFolders
from moirae.live.sources.discovery import FolderDiscovery
from moirae.live.sources.files import make_units
from moirae.live.stream_renames import rename_streams
from moirae.runtime import database
from moirae.runtime.storage import Landings, check_declarations, check_storage, open_storage
from sql.archive import UnitGateway
from tests.examples import examples
from tests.ingest_scenario import NOW
from tests.inline_jobs import InlineJobs
from tests.workspace_machine import Start, machine_type, run_machine, run_sequence

pytestmark = pytest.mark.services


class Killed(Exception):
    """The process ends here."""


class ArchiveStarter:
    """What the live process does with the input of a workspace, without its rules."""

    def drain(self, root: Path) -> Start:
        try:
            settings = load_settings_from_environment(root / "moirae.yaml")
            check_storage(settings)
            with database.connect_database(settings, "live") as connection:
                rename_streams(settings, connection, open_storage(settings))
                check_declarations(settings)
                self._ingest(settings, connection)
        except MoiraeError as error:
            return Start(2, str(error))
        return Start(0, "")

    def start_and_kill(self, root: Path, moment: float) -> None:
        """Between the append to a table and the record of it, or before anything is appended."""
        function = "finish_units" if moment > 0.3 else "chunks"
        killed: Callable[..., Any] = _raise_killed
        with (
            patch(f"archiver.ingest.ledger.catalog.Catalog.{function}", killed),
            pytest.raises(Killed),
        ):
            self.drain(root)

    def _ingest(self, settings: Settings, connection: Connection[Any]) -> None:
        schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
        policy = CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age))
        archive = ArchiveWriter(open_storage(settings), schemas, policy, connection, lambda: None)
        archive.engines.policy = EnginePolicy("auto", large_batch=30)
        archive.engines.executors = ExecutorIngest(InlineJobs(), archive.engines.sizes)
        for table in archive.tables.values():
            if table.is_rewriting:
                ColumnRewrite(table).run(lambda progress: None)
        archive.ingest(_find_units(settings, connection), to_micros(NOW))
        landing_folders = LandingFolders(Landings.of(settings), settings.streams)
        for stream in settings.streams:
            units = list(landing_folders.list_units(stream))
            archive.ingest(units, to_micros(NOW))
            for unit in units:
                unit.path.unlink()


def _raise_killed(*_: Any, **__: Any) -> None:
    raise Killed


def _find_units(settings: Settings, connection: Connection[Any]) -> Sequence[SourceUnit]:
    """The files that the ledger does not have."""
    units: list[SourceUnit] = []
    gateway = UnitGateway(connection)
    for name, declared in settings.streams.items():
        source = declared.source
        if isinstance(source, FileSource):
            base = settings.file.parent

            def find_archived(names: Any, stream: str = name) -> Any:
                return gateway.finished_names(stream, names)

            discovery = FolderDiscovery(name, source.files, base, find_archived)
            units += make_units(discovery.find_new(), {name: source.record_format}, base)
    return units


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_archive_goes_on_through_each_kind_of_change(seed: int) -> None:
    run_sequence(ArchiveStarter(), seed, steps=16)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_spark_reads_the_same_rows_through_each_kind_of_change(spark: SparkSession) -> None:
    run_sequence(ArchiveStarter(), seed=5, steps=16, spark=spark)


@pytest.mark.slow
def test_archive_goes_on_whatever_changes() -> None:
    run_machine(ArchiveStarter(), examples=examples(10).max_examples, steps=10)


@pytest.mark.slow
def test_each_change_goes_on() -> None:
    machine = machine_type(ArchiveStarter())()
    machine.make_workspace(seed=3)
    try:
        machine.rename_streams()
        machine.change_source(source="http")
        machine.rename_streams()
        machine.add_or_remove_column(name="note")
        machine.widen_column(name="v")
        machine.kill_at_any_moment(moment=0.8)
        machine.add_or_remove_stream(name="alpha")
        machine.declare_what_cannot_be(kind="narrower type")
        machine.add_or_remove_stream(name="alpha")
    finally:
        machine.teardown()
