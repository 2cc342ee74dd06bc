"""Source units: what is archived as one, read piece by piece into typed rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import pyarrow as pa

from archiver.decode import Decoded, Format, Refused, csv_header, decode
from archiver.decode_table import Unfit, decode_table
from archiver.schema import StreamSchema

# Records decoded and appended at a time: bounds memory (some 300 bytes a record) and the rows of one file.
PIECE = 200_000


class SourceDamaged(Exception):
    """A unit cannot be read to its end; what was read before stays."""


@dataclass(frozen=True)
class Unit:
    """A source unit: a file, a pushed batch, a range of a Kafka partition, dead letters of a unit that are retried.

    `lines` yields its lines without line ends, blank ones too, or, where `form` is None, tables of rows. `numbers`:
    the number of each line, where they are not counted from 1; then no line is passed over. `fields`: of CSV lines
    without a header. `partition`: of a source where each record is held against those before it, not the whole unit.
    """

    stream: str
    name: str
    form: Format | None
    lines: Callable[[], Iterator[bytes]] | Callable[[], Iterator[pa.Table]]
    numbers: Sequence[int] | None = None
    fields: Sequence[str] | None = None
    partition: str | None = None


@dataclass(frozen=True)
class Piece:
    """Some records of a unit: how many, the typed rows among them, and the fields of CSV lines."""

    read: int
    rows: Decoded
    fields: Sequence[str] | None = None


def pieces(unit: Unit, schema: StreamSchema) -> Iterator[Piece]:
    """The unit's records in order, with their line numbers. A rest that cannot be read counts as one bad record."""
    last = 0
    try:
        for piece in _tables(unit, schema) if unit.form is None else _texts(unit, unit.form, schema):
            last = max(last, *piece.rows.lines[-1:], *(refused.line for refused in piece.rows.refused[-1:]), 0)
            yield piece
    except (SourceDamaged, Unfit) as damage:
        nothing = decode(schema, "jsonl", [], 0)
        yield Piece(1, replace(nothing, refused=[Refused(last + 1, "malformed", str(damage)[:500], b"")]))


def _tables(unit: Unit, schema: StreamSchema) -> Iterator[Piece]:
    first = 1
    for table in unit.lines():
        assert isinstance(table, pa.Table)
        yield Piece(len(table), decode_table(schema, table, first))
        first += len(table)


def _texts(unit: Unit, form: Format, schema: StreamSchema) -> Iterator[Piece]:
    numbered = _numbered(unit)
    fields = unit.fields
    if form == "csv" and fields is None:
        header = next(numbered, None)
        fields = _header(header[1]) if header is not None else []
    held: list[tuple[int, bytes]] = []
    damage: SourceDamaged | None = None
    while True:
        try:
            held = []
            for one in islice(numbered, PIECE):
                held.append(one)
        except SourceDamaged as error:
            damage = error
        if held:
            rows = decode(schema, form, [line for _, line in held], 0, fields or [])
            lines = [held[i][0] for i in rows.lines]
            refused = [replace(r, line=held[r.line][0]) for r in rows.refused]
            yield Piece(len(held), replace(rows, lines=lines, refused=refused), fields if form == "csv" else None)
        if damage is not None:
            raise damage
        if len(held) < PIECE:
            return


def _numbered(unit: Unit) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; where these are counted, without blank lines and a byte order mark."""
    lines = unit.lines()
    if unit.numbers is not None:
        yield from zip(unit.numbers, lines, strict=True)
        return
    first = next(lines, None)
    if first is not None:
        marked = chain([first.removeprefix(b"\xef\xbb\xbf")], lines)
        yield from ((number, line) for number, line in enumerate(marked, 1) if line.strip())


def _header(line: bytes) -> list[str]:
    try:
        return csv_header(line)
    except ValueError:
        return []  # then each line is refused for its number of fields
