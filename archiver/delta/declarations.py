"""The declarations of a stream in their order, as its table records them. No I/O.

A row is identified by its values as they were read when it was archived, and the declaration of
that time says how. The table's property `moirae.declarations` holds all declarations, the current
one last, and for each earlier one the last append of rows that were read under it, and the newest
event time that the table had then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from archiver.delta.column_changes import (
    NO_CHANGES,
    ColumnChanges,
    ColumnProblem,
    find_identity_problems,
    plan_column_changes,
)
from archiver.delta.files import REWRITTEN_MARK
from archiver.delta.protocol import OWN_COLUMNS_PROPERTY
from archiver.delta.schema import ADDED_COLUMNS, EarlierDeclaration, StreamSchema
from archiver.formats import DEFAULT_TIME_READING, Redaction, TimeReading
from archiver.times import Micros

DECLARATIONS_PROPERTY = OWN_COLUMNS_PROPERTY

_TYPE_NAMES = {
    '"string"': "string",
    '"boolean"': "boolean",
    '"integer"': "int",
    '"long"': "bigint",
    '"float"': "float",
    '"double"': "double",
    '"date"': "date",
    '"timestamp"': "timestamp",
}


class StoredTable(NamedTuple):
    """What a Delta table says of its columns.

    `column_types`: as JSON. `declarations`: the property; None: written by an earlier version.
    `newest`: no row has a later event time; None: unknown.
    """

    column_types: Mapping[str, str]
    declarations: str | None
    append_count: int
    is_empty: bool
    newest: Micros | None = None

    @property
    def columns(self) -> dict[str, str]:
        """Type names of the columns, without those that the archive adds to each row."""
        columns: dict[str, str] = {}
        for name, json_type in self.column_types.items():
            if name not in ADDED_COLUMNS:
                columns[name] = _TYPE_NAMES.get(json_type, json_type)
        return columns


@dataclass(frozen=True)
class TableDeclaration:
    """The present declaration of a stream beside what its table records.

    `schema`: with the earlier declarations. `changes`: what its columns take. `problems`: why it
    cannot take over. `is_recorded`: the table records it, and has its columns.
    """

    schema: StreamSchema
    changes: ColumnChanges = NO_CHANGES
    problems: tuple[ColumnProblem, ...] = ()
    is_recorded: bool = True


def compare_declaration(schema: StreamSchema, table: StoredTable) -> TableDeclaration:
    """Compare the present declaration with a table's. A table without rows takes any."""
    if table.declarations is None:
        recorded = assume_first_declaration(schema, table.columns)
    else:
        recorded = decode_declarations(schema, table.declarations)
    is_same = table.declarations is not None and is_same_declaration(schema, recorded)
    has_added_columns = table.column_types.keys() >= ADDED_COLUMNS.keys()
    if table.is_empty:
        stored = {name: table.columns.get(name) for name in schema.columns}
        is_recorded = is_same and has_added_columns and stored == dict(schema.columns)
        return TableDeclaration(replace(schema, earlier=()), is_recorded=is_recorded)
    changes = plan_column_changes(schema, table.columns)
    problems = (*find_identity_problems(schema, recorded), *changes.problems)
    if is_same:
        declared = replace(schema, earlier=recorded.earlier)
    else:
        declared = succeed(schema, recorded, table.append_count, table.newest)
    is_complete = has_added_columns and not (changes.rewritten or changes.added)
    return TableDeclaration(declared, changes, problems, is_same and is_complete)


def encode_declarations(schema: StreamSchema) -> str:
    """The value of the property for a declaration and those before it."""
    documents = []
    for earlier, last_append, newest in schema.earlier:
        document = _to_document(earlier)
        documents.append({**document, "last_append": last_append, "newest": newest})
    documents.append(_to_document(schema))
    return orjson.dumps(documents).decode()


def rewritten_mark(schema: StreamSchema) -> str:
    """How names of files that are rewritten for a declaration begin, after their prefix."""
    digest = blake2b(encode_declarations(schema).encode(), digest_size=4).hexdigest()
    return f"{REWRITTEN_MARK}{digest}"


def decode_declarations(schema: StreamSchema, text: str) -> StreamSchema:
    """The declaration that a table records, with those before it.

    `schema`: of the stream, for what tables do not record. `text`: of the property.
    """
    *earlier_documents, current = orjson.loads(text)
    earlier: list[EarlierDeclaration] = []
    for document in earlier_documents:
        declared = _from_document(schema, document)
        earlier.append(
            EarlierDeclaration(declared, document["last_append"], document.get("newest"))
        )
    return replace(_from_document(schema, current), earlier=tuple(earlier))


def assume_first_declaration(
    schema: StreamSchema, stored_columns: Mapping[str, str]
) -> StreamSchema:
    """The declaration of a table that records none, as an earlier version has written it.

    `schema`: as the stream is declared now. `stored_columns`: types of the table's columns, in
    order, without those that the archive adds. Hashes of rows depend on the order of columns: that
    of the present declaration counts for the columns that it still has.
    """
    names_before = {name: schema.was.get(name, name) for name in schema.columns}
    declared = [name for name in names_before.values() if name in stored_columns]
    names = dict.fromkeys([*declared, *stored_columns])
    return replace(
        schema,
        columns={name: stored_columns[name] for name in names},
        time=next(iter(stored_columns)),
        id=None if schema.id is None else tuple(names_before[name] for name in schema.id),
        fields={},
        was={},
        earlier=(),
        time_reading=DEFAULT_TIME_READING,
        identity="row",
        redactions=(),
    )


def is_same_declaration(schema: StreamSchema, recorded: StreamSchema) -> bool:
    """Whether two declarations read every record as the same row, with the same identity."""
    return _to_document(schema) == _to_document(recorded)


def differs_by_redaction(earlier: StreamSchema, present: StreamSchema) -> bool:
    """Whether two declarations read records as the same rows, but for what is redacted."""
    return earlier.redactions != present.redactions and is_same_declaration(
        replace(earlier, redactions=present.redactions), present
    )


def succeed(
    schema: StreamSchema, recorded: StreamSchema, last_append: int, newest: Micros | None
) -> StreamSchema:
    """The declaration with those before it, when it takes over from a recorded one.

    `last_append`, `newest`: the last append and the newest event time of the table. A declaration
    under which nothing was appended is dropped.
    """
    earlier = recorded.earlier
    previous_append = earlier[-1].last_append if earlier else -1
    if last_append > previous_append:
        declared = replace(recorded, earlier=())
        earlier = (*earlier, EarlierDeclaration(declared, last_append, newest))
    return replace(schema, earlier=earlier)


def _to_document(schema: StreamSchema) -> dict[str, Any]:
    columns = []
    for name, type_name in schema.columns.items():
        column: dict[str, Any] = {"name": name, "type": type_name}
        if schema.fields_of(name) != (name,):
            column["fields"] = list(schema.fields_of(name))
        columns.append(column)
    document: dict[str, Any] = {
        "columns": columns,
        "time": schema.time,
        "id": None if schema.id is None else list(schema.id),
    }
    # What is not declared is not written, so that tables of earlier versions keep their property.
    if schema.time_reading != DEFAULT_TIME_READING:
        document["time_reading"] = schema.time_reading.encode()
    if schema.is_identified_by_place:
        document["identity"] = schema.identity
    if schema.measured and schema.id is None:
        document["measured"] = list(schema.measured)
    if schema.redactions:
        document["redact"] = list(map(list, schema.redactions))
    return document


def _from_document(schema: StreamSchema, document: Mapping[str, Any]) -> StreamSchema:
    columns = document["columns"]
    fields = {column["name"]: tuple(column["fields"]) for column in columns if "fields" in column}
    return replace(
        schema,
        columns={column["name"]: column["type"] for column in columns},
        time=document["time"],
        id=None if document["id"] is None else tuple(document["id"]),
        fields=fields,
        was={},
        earlier=(),
        time_reading=TimeReading.decode(document.get("time_reading", {})),
        identity=document.get("identity", "row"),
        measured=tuple(document.get("measured", schema.measured)),
        redactions=tuple(Redaction(*values) for values in document.get("redact", ())),
    )
