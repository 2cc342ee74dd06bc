"""Show the newest records of a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pydantic import Field

from moirae.errors import NotFound
from moirae.runtime.storage import archived_streams, open_storage
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation

if TYPE_CHECKING:
    import pyarrow as pa

    from archiver.delta import StreamTable
    from moirae.services.workspace import LocalWorkspace

_MAX_RECORDS = 100


class RecordQuery(Arguments):
    """How many records to show."""

    limit: int = Field(20, ge=1, le=_MAX_RECORDS, description="Maximum number of records.")


@dataclass(frozen=True)
class StreamRecords:
    """The archived records with the newest event times, newest first.

    `columns`: the declared ones and `_extra`, the undeclared fields.
    """

    stream: str
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]


@operation("GET", "/streams/{stream}/records", role="viewer")
def list_records(workspace: "LocalWorkspace", stream: Name, query: RecordQuery) -> StreamRecords:
    """Show the newest archived records of a stream."""
    from archiver.delta import StreamTable
    from recall.engines import to_json_value

    schemas = archived_streams(workspace.settings, workspace.connection)
    schema = next((schema for schema in schemas if schema.name == stream), None)
    if schema is None:
        names = ", ".join(schema.name for schema in schemas) or "none"
        raise NotFound(f"no stream {stream!r}: archived are {names}")
    table = StreamTable(open_storage(workspace.settings), schema)
    columns = list(schema.query_columns)
    records: list[dict[str, Any]] = []
    for row in _read_newest(table, columns, query.limit).to_pylist():
        records.append({name: to_json_value(value) for name, value in row.items()})
    return StreamRecords(stream, columns, records)


def _read_newest(table: "StreamTable", columns: Sequence[str], limit: int) -> "pa.Table":
    """The rows with the newest event times, newest first, from as few files as possible."""
    import pyarrow as pa

    from archiver.time_range import ALL_TIME
    from archiver.times import micros_column

    time = table.schema.time
    rows = table.files.arrow_schema.empty_table().select(columns)
    files = sorted(table.data_files(ALL_TIME), key=attrgetter("newest"), reverse=True)
    for file in files:
        if len(rows) == limit and file.newest <= int(micros_column(rows, time).min()):
            break
        rows = pa.concat_tables([rows, table.read_file(file.path, columns)])
        rows = rows.sort_by([(time, "descending")]).slice(0, limit)
    return rows
