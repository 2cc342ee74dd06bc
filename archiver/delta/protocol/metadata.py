"""Metadata and protocol of a table: how it is created, upgraded and extended, and what is refused."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
import pyarrow as pa
from deltalake import DeltaTable, Schema

# Changes when this program changes the columns of a table: see `archiver.delta.declarations`.
OWN_COLUMNS_PROPERTY = "moirae.declarations"
# Set when a table is restored from a backup: see `archiver.delta.generation`.
GENERATION_PROPERTY = "moirae.generation"
DEFAULT_HISTORY = 86_400.0  # seconds
_PARTITION_COLUMNS = ["chunk"]
_READER_VERSION = 1
# Writer features are listed by name from this version of the protocol on.
_FEATURES_VERSION = 7
_WRITER_FEATURES = ("appendOnly", "invariants", "changeDataFeed")
# Features that other programs may enable: commits of this program satisfy them.
_SUPPORTED_FEATURES = frozenset(
    (
        *_WRITER_FEATURES,
        "checkConstraints",
        "domainMetadata",
        "generatedColumns",
        "inCommitTimestamp",
    )
)
# Features that tables of an earlier writer version have, by the version that introduced them.
_EARLIER_FEATURES = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
}


def table_properties(history: float) -> dict[str, str]:
    """Properties of every table. `history`: seconds that superseded versions stay readable."""
    interval = f"interval {max(int(history), 1)} seconds"
    return {
        "delta.checkpointInterval": "100",
        "delta.logRetentionDuration": interval,
        "delta.deletedFileRetentionDuration": interval,
        # Changes follow from the files added and removed: no further files are written.
        "delta.enableChangeDataFeed": "true",
    }


def create_actions(
    schema: pa.Schema, timestamp: int, properties: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Protocol and metadata of a new table partitioned by chunk.

    `timestamp`: milliseconds. `properties`: besides those of every table.
    """
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": Schema.from_arrow(schema).to_json(),
        "partitionColumns": _PARTITION_COLUMNS,
        "configuration": {**table_properties(DEFAULT_HISTORY), **(properties or {})},
        "createdTime": timestamp,
    }
    protocol = _protocol(_WRITER_FEATURES)
    return [{"protocol": protocol}, {"metaData": metadata}]


def _protocol(writer_features: tuple[str, ...]) -> dict[str, Any]:
    return {
        "minReaderVersion": _READER_VERSION,
        "minWriterVersion": _FEATURES_VERSION,
        "writerFeatures": sorted(writer_features),
    }


@dataclass(frozen=True)
class TableMetadata:
    """The current protocol and metadata of a table, as actions of its log."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @staticmethod
    def of(table: DeltaTable) -> "TableMetadata":
        """The metadata of a table that the deltalake library has opened."""
        versions = table.protocol()
        protocol = {
            "minReaderVersion": versions.min_reader_version,
            "minWriterVersion": versions.min_writer_version,
            "writerFeatures": versions.writer_features or [],
        }
        stored = table.metadata()
        metadata: dict[str, Any] = {
            "id": str(stored.id),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": table.schema().to_json(),
            "partitionColumns": list(stored.partition_columns),
            "configuration": dict(stored.configuration),
            "createdTime": stored.created_time,
        }
        if stored.name is not None:
            metadata["name"] = stored.name
        if stored.description is not None:
            metadata["description"] = stored.description
        return TableMetadata(protocol, metadata)

    def updated(
        self, protocol: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None
    ) -> "TableMetadata":
        """The metadata after a commit with these actions."""
        return TableMetadata(protocol or self.protocol, metadata or self.metadata)

    @property
    def has_in_commit_timestamps(self) -> bool:
        """Whether each commit has to hold its time. Another program has enabled this."""
        return bool(self.metadata["configuration"].get("delta.enableInCommitTimestamps") == "true")

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the table by name."""
        properties: Mapping[str, str] = self.metadata["configuration"]
        return properties

    @property
    def column_types(self) -> dict[str, str]:
        """The type of each column, as JSON."""
        fields = orjson.loads(self.metadata["schemaString"])["fields"]
        return {field["name"]: orjson.dumps(field["type"]).decode() for field in fields}

    def find_incompatibility(self, previous: "TableMetadata | None" = None) -> str | None:
        """Why this program cannot read or write the table; None if it can.

        `previous`: the metadata before, of which all columns must be left unless this program has
        changed them: then the property `OWN_COLUMNS_PROPERTY` has changed, too.
        """
        reader_version = self.protocol["minReaderVersion"]
        if reader_version > _READER_VERSION:
            return (
                f"requires Delta reader version {reader_version} (such as for deletion vectors or "
                "column mapping)"
            )
        unsupported = self._writer_features() - _SUPPORTED_FEATURES
        if unsupported:
            return f"requires the writer feature {min(unsupported)}"
        if list(self.metadata["partitionColumns"]) != _PARTITION_COLUMNS:
            return "is not partitioned by chunk"
        if previous is not None and not self._has_own_columns(previous):
            types = self.column_types
            for name, column_type in previous.column_types.items():
                if types.get(name) != column_type:
                    return f"changes or drops the column {name}"
        return None

    def _has_own_columns(self, previous: "TableMetadata") -> bool:
        own_columns = self.properties.get(OWN_COLUMNS_PROPERTY)
        return own_columns != previous.properties.get(OWN_COLUMNS_PROPERTY)

    def upgrade_actions(self, history: float) -> list[dict[str, Any]]:
        """Actions that give the table its properties; empty if it has them."""
        properties = table_properties(history)
        configuration = dict(self.metadata["configuration"])
        if properties.items() <= configuration.items():
            return []
        metadata = {**self.metadata, "configuration": {**configuration, **properties}}
        features = self._writer_features().union(_WRITER_FEATURES)
        return [{"protocol": _protocol(tuple(features))}, {"metaData": metadata}]

    def _writer_features(self) -> set[str]:
        writer_version = self.protocol["minWriterVersion"]
        if writer_version >= _FEATURES_VERSION:
            return set(self.protocol.get("writerFeatures") or ())
        features: set[str] = set()
        for version, added_features in _EARLIER_FEATURES.items():
            if version <= writer_version:
                features.update(added_features)
        return features

    def replace_columns_actions(
        self, columns: pa.Schema, dropped: Collection[str], properties: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Actions that give the table columns and properties; empty if it has them.

        `columns`: in their new types; further columns of the table stay, except `dropped` ones.
        """
        schema = orjson.loads(self.metadata["schemaString"])
        fields = orjson.loads(Schema.from_arrow(columns).to_json())["fields"]
        fields_by_name = {field["name"]: field for field in schema["fields"]}
        for name in dropped:
            fields_by_name.pop(name, None)
        fields_by_name |= {field["name"]: field for field in fields}
        schema["fields"] = list(fields_by_name.values())
        schema_text = orjson.dumps(schema).decode()
        configuration = {**self.properties, **properties}
        if schema_text == self._schema_text() and configuration == self.properties:
            return []
        metadata = {**self.metadata, "schemaString": schema_text, "configuration": configuration}
        return [{"metaData": metadata}]

    def _schema_text(self) -> str:
        """The schema as this program writes it."""
        return orjson.dumps(orjson.loads(self.metadata["schemaString"])).decode()
