"""Revision streams in the archive: read by Spark, also as a change feed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from moirae.runtime import storage
from recall.event_plans import EventPlan
from recall.ledger.revision_archive import RevisionArchive
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.revisions.changes import RowChange, diff
from recall.revisions.row_keys import key_rows
from tests.stage_world import RULE, VERSION, StageWorld, micros, stage_world

EID = UUID(int=1)


@pytest.fixture(scope="module")
def world() -> Iterator[StageWorld]:
    with stage_world() as new_world:
        new_world.request(1, 12, EventPlan(recalls=("norm",)))
        yield new_world


@pytest.fixture(scope="module")
def archived(world: StageWorld) -> Path:
    """The folder of the archived recall, in three commits, of which one is repeated."""
    archive = RevisionArchive(world.connection, storage.open_storage(world.settings))
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


@pytest.mark.spark
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
