"""Identities of the rows of a data file, under the declarations that the rows were archived under."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.data_files.rows import cast_to_fields
from archiver.delta.identity import Array, fingerprint
from archiver.delta.schema import APPEND_COLUMN, IDENTITY_COLUMNS, StreamSchema


def declarations_of(schema: StreamSchema, appends: pa.ChunkedArray) -> Array:
    """The declaration of each row by its append number, see `StreamSchema.declaration_numbers`.

    Rows without a number are of the first: they were archived before appends were counted.
    """
    return schema.declaration_numbers(pc.fill_null(appends, 0).to_numpy())


def compute_identities(schema: StreamSchema, rows: pa.Table) -> Mapping[str, pa.Array]:
    """The identity columns of rows as a file stores them; those that are stored do not change.

    A file without identities has the columns of the declarations of its rows.
    """
    numbers = declarations_of(schema, rows[APPEND_COLUMN])
    ids = np.empty(len(rows), dtype=object)
    hashes = np.zeros(len(rows), dtype=np.int64)
    for number in np.unique(numbers).tolist():
        is_declared = numbers == number
        declaration = schema.declaration(number)
        arrow_schema = declaration.arrow_schema()
        names = [*declaration.columns, "_extra"]
        stored = rows.select([name for name in names if name in rows.column_names])
        content = cast_to_fields(
            _filter(stored, is_declared), [arrow_schema.field(name) for name in names]
        )
        # Files without identities are from before rows were identified by their place.
        of_content = replace(declaration, identity="row")
        row_ids, hashes[is_declared] = fingerprint(of_content, content)
        ids[is_declared] = row_ids
    computed = {"_id": pa.array(ids, pa.binary()), "_hash": pa.array(hashes)}
    for name in IDENTITY_COLUMNS:
        if name in rows.column_names:
            stored = rows[name].cast(computed[name].type).combine_chunks()
            computed[name] = pc.coalesce(stored, computed[name])
    return computed


def _filter(rows: pa.Table, is_selected: Array) -> pa.Table:
    if is_selected.all():
        return rows
    # Arrow does not filter the views of texts that other programs write.
    types = [pa.string() if pa.types.is_string_view(kind) else kind for kind in rows.schema.types]
    fields = map(pa.field, rows.column_names, types)
    return cast_to_fields(rows, list(fields)).filter(pa.array(is_selected))
