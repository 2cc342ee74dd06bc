"""Identities of the rows of a data file, under the declarations that the rows were archived under."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.data_files.rows import cast_to_fields
from archiver.delta.identity import Array, fingerprint, identify, identity_columns
from archiver.delta.schema import APPEND_COLUMN, EXTRA_COLUMN, IDENTITY_COLUMNS, StreamSchema


def declarations_of(schema: StreamSchema, rows: pa.Table) -> Array:
    """The declaration of each row by its append number, see `StreamSchema.declaration_numbers`.

    Rows without a number are of the first: they were archived before appends were counted.
    """
    if not schema.earlier:
        return np.zeros(len(rows), dtype=np.int64)
    return schema.declaration_numbers(pc.fill_null(rows[APPEND_COLUMN], 0).to_numpy())


def compute_identities(
    schema: StreamSchema, rows: pa.Table, names: Collection[str] = IDENTITY_COLUMNS
) -> Mapping[str, pa.Array]:
    """Identity columns of rows as a file stores them; those that are stored do not change.

    `schema`: with the declarations of the rows. `rows`: with the columns of `needed_columns`.
    """
    numbers = declarations_of(schema, rows)
    ids = np.empty(len(rows), dtype=object)
    hashes = np.zeros(len(rows), dtype=np.int64)
    for number in np.unique(numbers).tolist():
        is_declared = numbers == number
        # Rows that are identified by their place store their identities.
        declaration = replace(schema.declaration(number), identity="row")
        content = _read_as_declared(declaration, rows, is_declared, names)
        if "_hash" in names:
            ids[is_declared], hashes[is_declared] = fingerprint(declaration, content)
        else:
            ids[is_declared] = identify(declaration, content)
    computed = {"_id": pa.array(ids, pa.binary()), "_hash": pa.array(hashes)}
    for name in names:
        if name in rows.column_names:
            stored = rows[name].cast(computed[name].type).combine_chunks()
            computed[name] = pc.coalesce(stored, computed[name])
    return {name: computed[name] for name in names}


def needed_columns(schema: StreamSchema, names: Collection[str]) -> set[str]:
    """The columns of files from which identity columns are computed."""
    needed = {APPEND_COLUMN} if schema.earlier else set()
    for number in range(len(schema.earlier) + 1):
        declaration = schema.declaration(number)
        if "_hash" in names:
            needed |= {*declaration.columns, EXTRA_COLUMN}
        else:
            needed.update(identity_columns(declaration))
    return needed


def keep_other_identities(schema: StreamSchema, rows: pa.Table) -> pa.Table:
    """Rows with NULL in place of the identities that are computed when they are read.

    Others stay: of rows that are identified by their place, or whose columns were rewritten since.
    """
    stored_names = [
        name
        for name in IDENTITY_COLUMNS
        if name in rows.column_names and rows[name].null_count < len(rows)
    ]
    if not stored_names:
        return rows
    computed = compute_identities(schema, rows.drop_columns(stored_names), stored_names)
    for name in stored_names:
        stored = rows[name].cast(computed[name].type).combine_chunks()
        is_computed = pc.fill_null(pc.equal(stored, computed[name]), True)
        other = pc.if_else(is_computed, pa.scalar(None, stored.type), stored)
        rows = rows.set_column(rows.column_names.index(name), name, other)
    return rows


def _read_as_declared(
    declaration: StreamSchema, rows: pa.Table, is_declared: Array, names: Collection[str]
) -> pa.Table:
    """The rows of a declaration, with the columns that it had."""
    arrow_schema = declaration.arrow_schema()
    columns = [*declaration.columns, EXTRA_COLUMN]
    if "_hash" not in names:
        columns = identity_columns(declaration)
    stored = rows.select([name for name in columns if name in rows.column_names])
    return cast_to_fields(
        _filter(stored, is_declared), [arrow_schema.field(name) for name in columns]
    )


def _filter(rows: pa.Table, is_selected: Array) -> pa.Table:
    if is_selected.all():
        return rows
    # Arrow does not filter the views of texts that other programs write.
    types = [pa.string() if pa.types.is_string_view(kind) else kind for kind in rows.schema.types]
    fields = map(pa.field, rows.column_names, types)
    return cast_to_fields(rows, list(fields)).filter(pa.array(is_selected))
