"""Revision streams in the archive: read by Spark, also as a change feed."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from archiver.chunks.lifecycle import DELETE_CHUNK
from moirae.runtime import storage
from recall.event_plans import EventPlan
from recall.ledger.revision_archive import RevisionArchive
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.revisions.changes import RowChange, diff
from recall.revisions.row_keys import key_rows
from tests.stage_world import RULE, START, VERSION, StageWorld, micros, stage_world

EID = UUID(int=1)


@pytest.fixture(scope="module")
def world() -> Iterator[StageWorld]:
    with stage_world() as new_world:
        new_world.request(1, 12, EventPlan(recalls=("norm",)))
        yield new_world


@pytest.fixture(scope="module")
def archived(world: StageWorld) -> Path:
    """The folder of the archived recall, in three commits, of which one is repeated."""
    archive = RevisionArchive(world.connection, storage.open_storage(world.settings), 0.0)
    streams = RevisionStreams(world.connection)
    output = EventOutput(RULE, VERSION, "norm", EID, micros(12))
    before: dict[str, Any] = {}
    for means in ({"a": 1.0, "b": 2.0}, {"a": 1.5, "b": 2.0, "c": 3.0}, {"c": 3.0}):
        after = key_rows([{"host": host, "mean": mean} for host, mean in means.items()], ("host",))
        streams.append(output, diff(before, after))
        before = after
        archive.flush()
        world.connection.execute("UPDATE revision_streams SET archived = 0")
        archive.flush()
    streams.append(output, [RowChange("boundary", "")])
    archive.flush()
    (folder,) = (Path(world.settings.archive) / "recalls" / "rows").iterdir()
    return folder


def _rows(folder: Path) -> dict[str, float]:
    rows = DeltaTable(folder).to_pyarrow_table()["row"].to_pylist()
    return {row["host"]: row["mean"] for row in map(orjson.loads, rows)}


def test_keyed_table_holds_the_rows_after_the_last_revision(archived: Path) -> None:
    assert _rows(archived) == {"c": 3.0}


def test_revisions_are_archived_once_in_order(world: StageWorld, archived: Path) -> None:
    folder = archived.parents[1] / "revisions" / archived.name
    table = DeltaTable(folder).to_pyarrow_table().sort_by("seq")
    expected = [(seq, op) for seq, op, *_ in world.revisions("norm")]
    assert list(zip(table["seq"].to_pylist(), table["op"].to_pylist(), strict=True)) == expected
    assert expected[-1][1] == "boundary"


@pytest.mark.slow
@pytest.mark.services
def test_spark_reads_the_change_feed(spark: SparkSession, archived: Path) -> None:
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 0)
        .load(str(archived))
        .orderBy("_commit_version", "seq", "_change_type")
        .collect()
    )
    changes = [
        (row["_change_type"], orjson.loads(row["row"])["host"], orjson.loads(row["row"])["mean"])
        for row in feed
        if row["_change_type"] != "update_preimage"
    ]
    assert sorted(changes[:2]) == [("insert", "a", 1.0), ("insert", "b", 2.0)]
    assert sorted(changes[2:4]) == [("insert", "c", 3.0), ("update_postimage", "a", 1.5)]
    assert sorted(changes[4:]) == [("delete", "a", 1.5), ("delete", "b", 2.0)]
    assert spark.read.format("delta").load(str(archived)).count() == 1


def test_revisions_about_deleted_chunks_expire_in_the_archive() -> None:
    with stage_world() as world:
        root = storage.open_storage(world.settings)
        streams = RevisionStreams(world.connection)
        for number, second in enumerate((12, 20, 30), start=1):
            world.request(number, second, EventPlan(recalls=("norm",)))
            output = EventOutput(RULE, VERSION, "norm", UUID(int=number), micros(second))
            streams.append(output, diff({}, key_rows([{"host": "a", "mean": 1.0}], ("host",))))
        world.connection.execute(
            "UPDATE recalled_events SET ended_at = now() WHERE ts < %s", (_at(20),)
        )
        archive = RevisionArchive(world.connection, root, 0.0)
        archive.flush()
        world.connection.execute("DELETE FROM chunks")
        world.connection.execute(
            "INSERT INTO chunks (id, from_ts, to_ts, state) VALUES (0, NULL, %s, 'expired'),"
            " (1, %s, %s, 'expired'), (2, %s, NULL, 'present')",
            (_at(5), _at(5), _at(25), _at(25)),
        )
        archive.expire()
        assert _archived_seconds(world) == {"revisions": [12, 20, 30], "rows": [12, 20, 30]}
        world.connection.execute(
            "INSERT INTO preparations (chunk, name, version) VALUES (0, %s, 0), (1, %s, 0)",
            (DELETE_CHUNK, DELETE_CHUNK),
        )
        archive.expire()
        # The event at 20 is open.
        assert _archived_seconds(world) == {"revisions": [20, 30], "rows": [20, 30]}
        world.connection.execute("UPDATE recalled_events SET ended_at = now()")
        RevisionArchive(world.connection, root, 0.0).expire()
        assert _archived_seconds(world) == {"revisions": [30], "rows": [30]}
        for folder in (Path(world.settings.archive) / "recalls").glob("*/*"):
            files = [path.name for path in folder.glob("*.parquet")]
            assert sorted(files) == sorted(Path(p).name for p in DeltaTable(folder).file_uris())
        # Later revisions follow where the archive ends.
        streams.append(output, [RowChange("boundary", "")])
        archive.flush()
        assert _archived_seconds(world)["revisions"] == [30, 30]


def _at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def _archived_seconds(world: StageWorld) -> dict[str, list[float]]:
    """The event times in the two tables of the only stream, as seconds after the start."""
    seconds = {}
    for name in ("revisions", "rows"):
        (folder,) = (Path(world.settings.archive) / "recalls" / name).iterdir()
        times = DeltaTable(folder).to_pyarrow_table()["ts"].to_pylist()
        seconds[name] = sorted((ts - START).total_seconds() for ts in times)
    return seconds
