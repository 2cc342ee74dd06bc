"""The fields of the first records of a file, before any column is declared."""

from itertools import islice
from pathlib import Path
from typing import Any

from archiver.errors import SourceDamaged
from archiver.formats import Format, RecordReading
from archiver.ingest.decoding import RecordSource, parse_records
from archiver.ingest.source_files import open_file, read_tables
from archiver.ingest.source_units import csv_fields

_MAX_RECORDS = 5_000


def sample_records(path: Path, record_format: Format) -> list[dict[str, Any]]:
    """The fields of those of the first records that a format can read."""
    if record_format.is_table:
        table = next(read_tables(path), None)
        rows: list[dict[str, Any]] = (
            [] if table is None else table.slice(0, _MAX_RECORDS).to_pylist()
        )
        return rows
    content: Any = open_file(record_format, path)()
    source = RecordSource(record_format, islice(content, 50_000))
    fields = None
    if record_format.is_csv:
        header = source.take(1).records if record_format.has_header else []
        fields = tuple(csv_fields(header[0], record_format.csv)) if header else ()
        fields = record_format.csv.names or fields
    try:
        records = source.take(_MAX_RECORDS).records
    except SourceDamaged:
        return []
    parsed = parse_records(RecordReading(record_format, fields), records, 0, has_positions=True)
    return [record for record in parsed if not isinstance(record, str)]
