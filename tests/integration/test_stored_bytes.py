"""What a workspace takes on disk: measured by its logs, and shown by status, chunks and metrics."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from archiver.chunks import Compaction
from archiver.delta import TableMeasurement
from moirae.cli import app
from moirae.config import Settings
from moirae.live.stored_bytes import measure_stored_bytes
from moirae.runtime.database import release_database
from moirae.runtime.storage import archived_streams, open_storage
from moirae.server.routes.metrics import collect_metrics
from sql.archive import StoredBytesGateway
from tests.backups import Filled, filled, make_workspace

_PLACE = ("_extra", "_late", "_id", "_hash", "_unit", "_line", "_append")


@pytest.fixture
def archive(public_folder: Path, request: pytest.FixtureRequest) -> Iterator[Filled]:
    """Three closed chunks of which the first is compact, and an open one."""
    settings = make_workspace(public_folder / request.node.name)
    try:
        with filled(settings) as opened:
            for start in range(0, 160, 40):
                opened.post(range(start, start + 40))
                opened.archive()
            tables = [opened.writer.tables["cpu"]]
            compaction = Compaction(tables, opened.writer.catalog.settled_places)
            for step in compaction.plan({0}):
                compaction.run(step)
            yield opened
    finally:
        release_database(settings)


def _measure(archive: Filled) -> None:
    settings = archive.settings
    measure_stored_bytes(
        open_storage(settings),
        archived_streams(settings, archive.connection),
        StoredBytesGateway(archive.connection),
        TableMeasurement(settings.archive_history.total_seconds()),
    )


def _shown(settings: Settings, *arguments: str) -> Any:
    command = [*arguments, "--workspace", str(settings.file), "-o", "json"]
    return json.loads(CliRunner().invoke(app, command).stdout)


def test_bytes_by_kind_add_up_to_what_is_on_disk(archive: Filled) -> None:
    assert _shown(archive.settings, "status")["storage"]["measured_at"] is None
    _measure(archive)
    storage = _shown(archive.settings, "status")["storage"]
    folder = Path(archive.settings.archive) / "streams" / "cpu"
    on_disk = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    cpu = next(stream for stream in storage["streams"] if stream["stream"] == "cpu")
    kinds = cpu["kinds"]
    assert kinds["columns"] + kinds["place"] + kinds["superseded"] == on_disk
    assert kinds["superseded"] > 0
    log = sum(path.stat().st_size for path in (folder / "_delta_log").iterdir())
    assert kinds["log"] == log
    assert storage["kinds"]["database"] > 1_000_000
    # 90 days, the default of `chunks.keep`.
    assert cpu["keep_bytes"] == pytest.approx(cpu["bytes_per_day"] * 90)
    assert sum(day["bytes"] for day in storage["days"]) > 0


def test_columns_are_those_of_the_user_whatever_wrote_the_file(archive: Filled) -> None:
    """The commits of files of earlier versions do not say it: they are looked at."""
    _measure(archive)
    recorded = StoredBytesGateway(archive.connection).sum_by_chunk()
    folder = Path(archive.settings.archive) / "streams" / "cpu"
    for commit in (folder / "_delta_log").glob("*.json"):
        text = commit.read_text()
        lines = []
        for line in text.splitlines():
            action = json.loads(line)
            action.get("add", {}).get("tags", {}).pop("moirae.place", None)
            lines.append(json.dumps(action))
        commit.write_text("\n".join(lines))
        assert "moirae.place" in text or '"add"' not in text
    _measure(archive)
    assert StoredBytesGateway(archive.connection).sum_by_chunk() == recorded
    files = archive.writer.tables["cpu"].data_files(chunk=1)
    columns = 0
    for file in files:
        row_group = pq.read_metadata(folder / file.path).row_group(0)
        for position in range(row_group.num_columns):
            column = row_group.column(position)
            if column.path_in_schema not in _PLACE:
                columns += column.total_compressed_size
    assert recorded["columns", 1] == columns


def test_chunks_and_metrics_show_them(archive: Filled) -> None:
    _measure(archive)
    for chunk in _shown(archive.settings, "chunks", "list"):
        assert chunk["columns"] + chunk["place"] == chunk["bytes"]
    samples = {}
    for family in collect_metrics(archive.connection):
        for sample in family.samples:
            samples[sample.name, tuple(sample.labels.values())] = sample.value
    assert samples["moirae_stored_bytes", ("columns",)] > 0
    assert samples["moirae_stream_stored_bytes", ("cpu", "place")] > 0
    assert samples["moirae_stream_stored_bytes_per_day", ("cpu",)] > 0


def test_a_chunk_that_is_gone_is_forgotten(archive: Filled) -> None:
    _measure(archive)
    archive.writer.tables["cpu"].delete_chunk(0)
    _measure(archive)
    chunks = {chunk for _, chunk in StoredBytesGateway(archive.connection).sum_by_chunk()}
    assert chunks == {1, 2, 3}
