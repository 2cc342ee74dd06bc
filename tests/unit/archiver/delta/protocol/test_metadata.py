"""Properties of tables: new ones, upgrades of older ones, changes that are refused."""

from pathlib import Path

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from archiver.delta.log import DeltaLog
from archiver.delta.protocol.metadata import (
    OWN_COLUMNS_PROPERTY,
    TableMetadata,
    create_actions,
    table_properties,
)
from archiver.storage.base import LocalStorage

SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("chunk", pa.int32())])


def new_table() -> TableMetadata:
    protocol, metadata = create_actions(SCHEMA, 1)
    return TableMetadata(protocol["protocol"], metadata["metaData"])


def test_new_table_needs_no_upgrade_until_the_history_changes() -> None:
    table = new_table()
    assert table.upgrade_actions(86_400.0) == []
    _, metadata = table.upgrade_actions(60.0)
    configuration = metadata["metaData"]["configuration"]
    assert configuration["delta.logRetentionDuration"] == "interval 60 seconds"


def test_table_of_an_earlier_version_is_upgraded_once(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA, partition_by=["chunk"])
    delta_log = DeltaLog(LocalStorage(tmp_path), "ts", DeltaTable(tmp_path))
    delta_log.set_history(60.0)
    delta_log.set_history(60.0)
    table = DeltaTable(tmp_path)
    assert table.version() == delta_log.version == 1
    configuration = table.metadata().configuration
    assert table_properties(60.0).items() <= configuration.items()
    features = table.protocol().writer_features or ()
    assert sorted(features) == ["appendOnly", "changeDataFeed", "invariants"]


def test_columns_are_added_once() -> None:
    table = new_table()
    assert table.replace_columns_actions(SCHEMA, (), {}) == []
    wider = SCHEMA.append(pa.field("n", pa.int64()))
    (action,) = table.replace_columns_actions(wider, (), {})
    extended = table.updated(None, action["metaData"])
    assert list(extended.column_types) == ["ts", "chunk", "n"]
    assert extended.find_incompatibility(table) is None
    assert table.find_incompatibility(extended) == "changes or drops the column n"


def test_columns_are_replaced_only_by_a_new_declaration() -> None:
    table = new_table()
    renamed = pa.schema([SCHEMA.field("ts"), pa.field("part", pa.int32())])
    for properties, reason in (
        ({}, "changes or drops the column chunk"),
        ({OWN_COLUMNS_PROPERTY: "[]"}, None),
    ):
        (action,) = table.replace_columns_actions(renamed, ["chunk"], properties)
        replaced = table.updated(None, action["metaData"])
        assert list(replaced.column_types) == ["ts", "part"]
        assert replaced.find_incompatibility(table) == reason


def test_features_that_commits_do_not_satisfy_are_refused() -> None:
    table = new_table()
    for feature, reason in [
        ("checkConstraints", None),
        ("inCommitTimestamp", None),
        ("rowTracking", "requires the writer feature rowTracking"),
    ]:
        protocol = {**table.protocol, "writerFeatures": ["appendOnly", feature]}
        assert table.updated(protocol, None).find_incompatibility() == reason


def test_other_partitions_and_reader_versions_are_refused() -> None:
    table = new_table()
    schema = orjson.loads(table.metadata["schemaString"])
    assert [field["name"] for field in schema["fields"]] == ["ts", "chunk"]
    other = table.updated(None, {**table.metadata, "partitionColumns": []})
    assert other.find_incompatibility() == "is not partitioned by chunk"
    newer = table.updated({**table.protocol, "minReaderVersion": 3}, None)
    assert "reader version 3" in str(newer.find_incompatibility())
