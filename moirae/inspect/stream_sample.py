"""How a stream reads a file: rows and refused records, without a workspace that runs."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from archiver.formats import Format
from archiver.ingest import read_file_batches
from archiver.ingest.decoding import redact_refused
from archiver.times import to_micros
from moirae.config import Stream, stream_schema


@dataclass(frozen=True)
class SampledRefusal:
    """A record that would be a dead letter: the line, the reason, and how it begins."""

    line: int
    detail: str
    record: str


@dataclass(frozen=True)
class StreamSample:
    """The first rows of a file, by column, and its refused records; and how many there are."""

    columns: list[str]
    rows: list[dict[str, Any]]
    refused: list[SampledRefusal]
    row_count: int
    refused_count: int


_MAX_RECORD_TEXT = 200  # characters of a refused record that are shown


def read_sample(
    name: str, declared: Stream, path: Path, record_format: Format, limit: int
) -> StreamSample:
    """Decode a file as a stream would. `limit`: rows and refused records that are returned.

    Raises `SourceUnreachable`.
    """
    schema = stream_schema(name, declared)
    rows: list[dict[str, Any]] = []
    refused: list[SampledRefusal] = []
    row_count = refused_count = 0
    clock = to_micros(datetime.now(UTC))
    for batch in read_file_batches(schema, path, record_format, clock):
        row_count += len(batch.rows.table)
        refused_count += len(batch.rows.refused_lines)
        rows += batch.rows.table.slice(0, limit - len(rows)).to_pylist()
        shown = list(islice(batch.rows.refused_lines, limit - len(refused)))
        for line in redact_refused(schema, batch.reading, shown):
            text = line.raw[:_MAX_RECORD_TEXT].decode("utf-8", "replace")
            refused.append(SampledRefusal(line.line, line.detail, text))
    columns = [*schema.columns, "_extra"]
    return StreamSample(columns, rows, refused, row_count, refused_count)
