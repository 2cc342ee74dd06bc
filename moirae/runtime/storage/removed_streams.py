"""Streams that the workspace no longer declares: their history stays readable until it expires."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sql
from moirae.config import HttpSource, Settings, Stream, stream_schema
from moirae.runtime.storage.archive import open_storage
from sql.archive import StreamGateway, UnitGateway

if TYPE_CHECKING:
    from archiver.delta import StreamSchema


def removed_streams(settings: Settings, connection: sql.Connection) -> "list[StreamSchema]":
    """The archived streams that are not declared, as their tables record them."""
    # Loaded here: the command line reads settings without it.
    from archiver.delta import read_recorded_schema

    root = open_storage(settings)
    schemas: list[StreamSchema] = []
    for row in sorted(StreamGateway(connection).list_all(), key=lambda row: row.name):
        if row.name not in settings.streams:
            schema = read_recorded_schema(root, row.name)
            if schema is not None:
                schemas.append(schema)
    return schemas


def archived_streams(settings: Settings, connection: sql.Connection) -> "list[StreamSchema]":
    """The declared streams, and those that are only archived."""
    declared = [stream_schema(name, stream) for name, stream in settings.streams.items()]
    return [*declared, *removed_streams(settings, connection)]


def list_filled_tables(settings: Settings, connection: sql.Connection) -> dict[str, int]:
    """The tables of the archive that must have rows according to the ledger, and how many."""
    tables = {
        schema.name: f"streams/{schema.table_name}"
        for schema in archived_streams(settings, connection)
    }
    filled: dict[str, int] = {}
    for counts in UnitGateway(connection).sum_by_stream():
        rows = counts.archived - counts.deleted
        if rows > 0 and counts.stream in tables:
            filled[tables[counts.stream]] = rows
    return filled


def recalled_streams(settings: Settings, connection: sql.Connection) -> "list[StreamSchema]":
    """The archived streams, also under the names that they had before.

    A recall names streams as they were when it was requested. A name that another stream has now
    is that stream's.
    """
    schemas = archived_streams(settings, connection)
    rows = StreamGateway(connection).list_all()
    previous_names = {row.name: row.previous_names for row in rows}
    taken = {row.name for row in rows} | settings.streams.keys()
    return [*schemas, *_rename_back(schemas, previous_names, taken)]


def _rename_back(
    schemas: "Iterable[StreamSchema]",
    previous_names: Mapping[str, Sequence[str]],
    taken: Collection[str],
) -> "Iterator[StreamSchema]":
    for schema in schemas:
        for previous in previous_names.get(schema.name, ()):
            if previous not in taken:
                yield replace(schema, name=previous, renamed_to=schema.name)


def with_removed_streams(settings: Settings, connection: sql.Connection) -> Settings:
    """The workspace as if it declared all archived streams, for queries of history."""
    streams = dict(settings.streams)
    for schema in removed_streams(settings, connection):
        if schema.name not in settings.relations:
            streams[schema.name] = Stream.model_construct(
                declared_columns=dict(schema.columns),
                time=schema.time,
                source=HttpSource(http=True),
            )
    return settings.model_copy(update={"streams": streams})
