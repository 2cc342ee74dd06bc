"""SQL of DuckDB that reads the files of a snapshot, with the columns as they are declared."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archiver.read import StreamSnapshot
    from archiver.time_range import TimeRange

DUCKDB_TYPES = {
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
}


def scan_files(snapshot: "StreamSnapshot") -> str:
    """What follows FROM. The files of the snapshot are leased.

    Files that are not rewritten yet store some columns under other names or types; a column that
    was declared later may be in none of them.
    """
    assert snapshot.table is not None
    schema = snapshot.table.schema
    paths = ", ".join(map(_string_literal, snapshot.lease_paths()))
    source = f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"
    added = []
    for name, type_name in schema.columns.items():
        is_added = any(name not in earlier.schema.columns for earlier in schema.earlier)
        if is_added and name not in snapshot.rewritten:
            added.append(f'NULL::{DUCKDB_TYPES[type_name]} AS "{name}"')
    if added:
        source = f"(FROM {source} UNION ALL BY NAME SELECT {', '.join(added)} WHERE false)"
    if not snapshot.rewritten:
        return source
    names = ['"_extra"', '"_late"']
    for name, type_name in schema.columns.items():
        stored_name = snapshot.rewritten[name].name if name in snapshot.rewritten else name
        names.append(f'CAST("{stored_name}" AS {DUCKDB_TYPES[type_name]}) AS "{name}"')
    return f"(SELECT {', '.join(names)} FROM {source})"


def select_range(
    snapshot: "StreamSnapshot", columns: Iterable[str], time_range: "TimeRange", table: str = "scan"
) -> str:
    """A query of the rows in files that were not late, within a range; a condition may follow.

    `table`: what the condition calls the rows.
    """
    assert snapshot.table is not None
    names = ", ".join(map('"{}"'.format, columns))
    text = f'SELECT {names} FROM {scan_files(snapshot)} AS "{table}" WHERE NOT _late'
    time = snapshot.table.schema.time
    for comparison, bound in ((">=", time_range.start), ("<", time_range.end)):
        if bound is not None:
            text += f' AND "{time}" {comparison} make_timestamptz({bound})'
    return text


def _string_literal(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
