"""Source units: what is archived as one, read piece by piece into typed rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.errors import IncompatibleColumn, SourceDamaged
from archiver.ingest.line_decoder import (
    DecodedRows,
    LineFormat,
    RefusedLine,
    decode_lines,
    parse_csv_header,
)
from archiver.ingest.table_decoder import decode_table

# Records decoded and appended at a time: bounds memory (some 300 bytes a record) and the rows of one file.
BATCH_RECORDS = 200_000


@dataclass(frozen=True)
class SourceUnit:
    """A source unit: a file, a pushed batch, a range of a Kafka partition, dead letters of a unit that are retried.

    `lines` yields its lines without line ends, blank ones too, or, where `form` is None, tables of rows. `numbers`:
    the number of each line, where they are not counted from 1; then no line is passed over. `fields`: of CSV lines
    without a header. `partition`: of a source where each record is held against those before it, not the whole unit.
    """

    stream: str
    name: str
    line_format: LineFormat | None
    read: Callable[[], Iterator[bytes]] | Callable[[], Iterator[pa.Table]]
    line_numbers: Sequence[int] | None = None
    fields: Sequence[str] | None = None
    partition: str | None = None


@dataclass(frozen=True)
class UnitBatch:
    """Some records of a unit: how many, the typed rows among them, and the fields of CSV lines."""

    records_read: int
    rows: DecodedRows
    fields: Sequence[str] | None = None


def read_batches(unit: SourceUnit, schema: StreamSchema) -> Iterator[UnitBatch]:
    """The unit's records in order, with their line numbers. A rest that cannot be read counts as one bad record."""
    last = 0
    try:
        for piece in (
            _read_table_batches(unit, schema)
            if unit.line_format is None
            else _read_line_batches(unit, unit.line_format, schema)
        ):
            last = max(
                last,
                *piece.rows.line_numbers[-1:],
                *(refused.line for refused in piece.rows.refused_lines[-1:]),
                0,
            )
            yield piece
    except (SourceDamaged, IncompatibleColumn) as damage:
        nothing = decode_lines(schema, "jsonl", [], 0)
        yield UnitBatch(
            1,
            replace(
                nothing, refused_lines=[RefusedLine(last + 1, "malformed", str(damage)[:500], b"")]
            ),
        )


def _read_table_batches(unit: SourceUnit, schema: StreamSchema) -> Iterator[UnitBatch]:
    first = 1
    for table in unit.read():
        assert isinstance(table, pa.Table)
        yield UnitBatch(len(table), decode_table(schema, table, first))
        first += len(table)


def _read_line_batches(
    unit: SourceUnit, form: LineFormat, schema: StreamSchema
) -> Iterator[UnitBatch]:
    numbered = _numbered_lines(unit)
    fields = unit.fields
    if form == "csv" and fields is None:
        header = next(numbered, None)
        fields = _csv_fields(header[1]) if header is not None else []
    held: list[tuple[int, bytes]] = []
    damage: SourceDamaged | None = None
    while True:
        try:
            held = []
            for one in islice(numbered, BATCH_RECORDS):
                held.append(one)
        except SourceDamaged as error:
            damage = error
        if held:
            rows = decode_lines(schema, form, [line for _, line in held], 0, fields or [])
            lines = [held[i][0] for i in rows.line_numbers]
            refused = [replace(r, line=held[r.line][0]) for r in rows.refused_lines]
            yield UnitBatch(
                len(held),
                replace(rows, line_numbers=lines, refused_lines=refused),
                fields if form == "csv" else None,
            )
        if damage is not None:
            raise damage
        if len(held) < BATCH_RECORDS:
            return


def _numbered_lines(unit: SourceUnit) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; where these are counted, without blank lines and a byte order mark."""
    lines = unit.read()
    if unit.line_numbers is not None:
        yield from zip(unit.line_numbers, lines, strict=True)
        return
    first = next(lines, None)
    if first is not None:
        marked = chain([first.removeprefix(b"\xef\xbb\xbf")], lines)
        yield from ((number, line) for number, line in enumerate(marked, 1) if line.strip())


def _csv_fields(line: bytes) -> list[str]:
    try:
        return parse_csv_header(line)
    except ValueError:
        return []  # then each line is refused for its number of fields
