"""Whether a stream's table can take its declaration, without opening the table for anything else."""

from collections.abc import Iterable
from datetime import timedelta

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from archiver.delta.column_changes import find_altered_types
from archiver.delta.declarations import (
    DECLARATIONS_PROPERTY,
    StoredTable,
    TableDeclaration,
    compare_declaration,
    decode_declarations,
)
from archiver.delta.protocol import TableMetadata
from archiver.delta.schema import StreamSchema
from archiver.storage import StorageRoot, as_storage

# The application id under which the log counts appends.
APPENDS_APPLICATION_ID = "appends"


def read_recorded_schema(root: StorageRoot, stream: str) -> StreamSchema | None:
    """A stream as its table records it, for one that is not declared; None: it has no table.

    Raises `OSError`, `ArchiverError` and deltalake's errors.
    """
    table = _open_table(root, stream)
    if table is None:
        return None
    metadata = TableMetadata.of(table)
    declarations = metadata.properties.get(DECLARATIONS_PROPERTY)
    columns = StoredTable(metadata.column_types, declarations, 0, is_empty=False).columns
    zero = timedelta(0)
    # The event time is the first column of a table.
    schema = StreamSchema(stream, columns, next(iter(columns)), None, (), zero, zero)
    return schema if declarations is None else decode_declarations(schema, declarations)


def read_altered_types(
    root: StorageRoot, schemas: Iterable[StreamSchema]
) -> dict[str, dict[str, str]]:
    """By stream and column, the present types of columns whose values had another text before."""
    altered: dict[str, dict[str, str]] = {}
    for schema in schemas:
        declaration = read_declaration(root, schema)
        types = {} if declaration is None else find_altered_types(declaration.schema)
        if types:
            altered[schema.name] = types
    return altered


def read_declaration(root: StorageRoot, schema: StreamSchema) -> TableDeclaration | None:
    """The declaration of a stream beside what its table records; None: it has no table.

    Raises `OSError`, `ArchiverError` and deltalake's errors.
    """
    table = _open_table(root, schema.table_name)
    if table is None:
        return None
    metadata = TableMetadata.of(table)
    stored = StoredTable(
        metadata.column_types,
        metadata.properties.get(DECLARATIONS_PROPERTY),
        table.transaction_version(APPENDS_APPLICATION_ID) or 0,
        is_empty=not table.file_uris(),
    )
    return compare_declaration(schema, stored)


def _open_table(root: StorageRoot, stream: str) -> DeltaTable | None:
    storage = as_storage(root) / "streams" / stream
    if not storage.has_table():
        return None
    try:
        return storage.open_table()
    except TableNotFoundError:
        return None
