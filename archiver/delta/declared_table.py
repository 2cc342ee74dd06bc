"""Whether a stream's table can take its declaration, without opening the table for anything else."""

from deltalake.exceptions import TableNotFoundError

from archiver.delta.declarations import (
    DECLARATIONS_PROPERTY,
    StoredTable,
    TableDeclaration,
    compare_declaration,
)
from archiver.delta.protocol import TableMetadata
from archiver.delta.schema import StreamSchema
from archiver.storage import StorageRoot, as_storage

# The application id under which the log counts appends.
APPENDS_APPLICATION_ID = "appends"


def read_declaration(root: StorageRoot, schema: StreamSchema) -> TableDeclaration | None:
    """The declaration of a stream beside what its table records; None: it has no table.

    Raises `OSError`, `ArchiverError` and deltalake's errors.
    """
    storage = as_storage(root) / "streams" / schema.name
    if not storage.has_table():
        return None
    try:
        table = storage.open_table()
    except TableNotFoundError:
        return None
    metadata = TableMetadata.of(table)
    stored = StoredTable(
        metadata.column_types,
        metadata.properties.get(DECLARATIONS_PROPERTY),
        table.transaction_version(APPENDS_APPLICATION_ID) or 0,
        is_empty=not table.file_uris(),
    )
    return compare_declaration(schema, stored)
