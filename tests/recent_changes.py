"""Streams of changes, and a few changes around the alerts of `tests.api_data`."""

from datetime import timedelta

import pyarrow as pa

from archiver.delta import StreamSchema, StreamTable
from moirae.runtime.storage import open_storage
from tests.api_data import START
from tests.served import Served

MINUTE = timedelta(minutes=1)
COLUMNS = {"ts": "timestamp", "what": "string", "host": "string", "service": "string"}
DECLARED = """
  deploys:
    columns: {ts: timestamp, what: string, host: string, service: string}
    time: ts
    source: {http: true}
    changes: {what: what, where: {host: host, service: service}, steps: 1}
  flags:
    columns: {ts: timestamp, what: string, host: string}
    time: ts
    source: {http: true}
    changes: {what: what, where: {host: host}}
rules:"""
ROWS = [
    (START - 300 * MINUTE, "web 1.0", "host0", None),
    (START - 2 * MINUTE, "web 1.1", "host0", None),
    (START + MINUTE, "web 2.0", "host4", None),
    (START + 2 * MINUTE, "db 7", None, "db"),
    (START + 3 * MINUTE, "dns", None, None),
    (START + 3 * MINUTE, "web 2.0", "host3", None),
    (START + 5 * MINUTE, "web 2.1", "host4", None),
]


def archive_changes(served: Served) -> None:
    """Archive the changes, and one edge of the topology."""
    schema = StreamSchema("deploys", COLUMNS, "ts", None, (), MINUTE, MINUTE)
    table = StreamTable(open_storage(served.settings), schema)
    table.append(_make_rows(schema), 1)
    served.connection.execute(
        "INSERT INTO relation_versions (relation, key, valid_from, row) VALUES"
        """ ('topology', '["host4"]', '0001-01-01T00:00:00Z', '{"source": "host4", "target": "db"}')"""
    )


def _make_rows(schema: StreamSchema) -> pa.Table:
    arrow_schema = schema.arrow_schema()
    rows = []
    for number, values in enumerate(ROWS):
        own = {"_late": False, "_unit": 1, "_line": number, "_append": 1, "chunk": 0}
        own |= {"_id": number.to_bytes(16, "big"), "_hash": number}
        rows.append(
            dict.fromkeys(arrow_schema.names) | own | dict(zip(COLUMNS, values, strict=True))
        )
    return pa.Table.from_pylist(rows, arrow_schema)
