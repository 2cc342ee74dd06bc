"""Streams in the formats that operators have, and the rows of their files."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from archiver.delta import StreamSchema
from archiver.formats import Format, TimeReading
from archiver.ingest import SourceUnit
from archiver.ingest.decoding import RefusedLine
from archiver.ingest.source_text import iterate_blocks, split_lines
from archiver.ingest.source_units import read_batches

CLOCK = 1_795_168_800_000_000  # 2026-11-20T10:00:00Z


def declare(
    columns: Mapping[str, str],
    fields: Mapping[str, tuple[str, ...]] | None = None,
    time: TimeReading | None = None,
    identity: Any = "row",
) -> StreamSchema:
    """A stream with a column `ts`."""
    none = timedelta(0)
    return StreamSchema(
        "s",
        {"ts": "timestamp", **columns},
        "ts",
        None,
        (),
        none,
        timedelta(minutes=5),
        fields=fields or {},
        time_reading=time or TimeReading(),
        identity=identity,
    )


class _Content:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, size: int) -> bytes:
        block, self._content = self._content[:size], self._content[size:]
        return block


def unit_of(content: bytes, record_format: Format) -> SourceUnit:
    """A unit of a file."""

    def read() -> Any:
        blocks = iterate_blocks(_Content(content), record_format.encoding)  # type: ignore[arg-type]
        if record_format.has_documents:
            return blocks
        return split_lines(blocks, b"\n" if record_format.is_csv else b"\r\n")

    return SourceUnit("s", "u", record_format, read)


def read_rows(
    schema: StreamSchema, content: bytes, record_format: Format
) -> tuple[list[tuple[Any, ...]], list[RefusedLine]]:
    """The declared columns and `_extra` of the rows of a file, and what is refused."""
    rows: list[tuple[Any, ...]] = []
    refused: list[RefusedLine] = []
    for batch in read_batches(unit_of(content, record_format), schema, CLOCK):
        names = [*schema.columns, "_extra"]
        columns = [batch.rows.table[name].to_pylist() for name in names]
        texts = [value.isoformat().replace("+00:00", "Z") for value in columns[0]]
        rows += zip(texts, *columns[1:], strict=True)
        refused += batch.rows.refused_lines
    return rows, refused


def lines_of(schema: StreamSchema, content: bytes, record_format: Format) -> Sequence[int]:
    """The numbers of the rows' records."""
    batches = read_batches(unit_of(content, record_format), schema, CLOCK)
    return [number for batch in batches for number in batch.rows.line_numbers.tolist()]
