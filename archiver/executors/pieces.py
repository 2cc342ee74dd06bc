"""Which task decodes which part of the source units of a batch. No I/O.

A record's slice and line number do not depend on how a file is divided.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from archiver.executors.grouping import choose_task_count, divide_evenly
from archiver.formats import COMPRESSION_SUFFIXES
from archiver.ingest import BATCH_RECORDS, SourceUnit

# Smaller files are one piece: dividing one needs a job that counts its lines.
MIN_DIVIDED_BYTES = 4 << 20
_MIN_RANGE_BYTES = 1 << 20
_RANGES_PER_CORE = 2
# Records of a piece of a divided file. It divides `BATCH_RECORDS`, so that a piece is a part of one
# slice.
PIECE_RECORDS = BATCH_RECORDS // 8


@dataclass(frozen=True)
class ByteRange:
    """The lines of a file that begin at bytes `start` to `end`; None: to the end of the file."""

    unit: int
    start: int
    end: int | None


@dataclass(frozen=True)
class LineCount:
    """Lines of a byte range. `offset`: of its first line; `records`: lines that are not blank."""

    offset: int
    lines: int
    records: int


@dataclass(frozen=True)
class LineRange:
    """A part of a divided file.

    `offset`: where to begin to read. `first_line`: the number of the line there. `skip`: records
    before those of the part; `take`: records of the part, None: all to the end of the file.
    """

    offset: int
    first_line: int
    skip: int
    take: int | None


@dataclass(frozen=True)
class UnitPiece:
    """A unit, or a part of it, that one task decodes.

    `unit`: its position in the batch. `slice`: of the first record. `lines`: None for a whole unit.
    """

    unit: int
    slice: int = 0
    lines: LineRange | None = None


def is_divisible(unit: SourceUnit) -> bool:
    """Whether parts of a unit can be read without the parts before them."""
    if not unit.format.is_linewise or unit.path is None or unit.size is None:
        return False
    return unit.path.suffix not in COMPRESSION_SUFFIXES and unit.size >= MIN_DIVIDED_BYTES


def plan_ranges(unit: int, size: int, cores: int) -> list[ByteRange]:
    """Divide a file of `size` bytes into ranges of which the lines are counted."""
    count = max(1, min(size // _MIN_RANGE_BYTES, cores * _RANGES_PER_CORE))
    starts = [size * number // count for number in range(count)]
    ends = [*starts[1:], None]
    return [ByteRange(unit, start, end) for start, end in zip(starts, ends, strict=True)]


def divide_unit(
    unit: int, counts: Sequence[LineCount], header_records: int, piece_records: int
) -> list[UnitPiece]:
    """The pieces of a file. `counts`: of consecutive byte ranges; `header_records`: 1 for CSV."""
    records_before = [0, *accumulate(count.records for count in counts)]
    lines_before = [0, *accumulate(count.lines for count in counts)]
    first_records = range(header_records, records_before[-1], piece_records)
    bounds = [*first_records, None]
    pieces: list[UnitPiece] = []
    position = 0
    for first, end in pairwise(bounds):
        assert first is not None
        while records_before[position + 1] <= first:
            position += 1
        lines = LineRange(
            offset=counts[position].offset,
            first_line=lines_before[position] + 1,
            skip=first - records_before[position],
            take=None if end is None else end - first,
        )
        pieces.append(UnitPiece(unit, (first - header_records) // BATCH_RECORDS, lines))
    return pieces


def bundle_pieces(
    pieces: Sequence[UnitPiece], rows: Sequence[float], cores: int
) -> list[list[UnitPiece]]:
    """Consecutive pieces by task. `rows`: about how many rows each piece has."""
    task_count = choose_task_count(sum(rows), cores, PIECE_RECORDS, BATCH_RECORDS)
    return [_join_pieces(pieces[group]) for group in divide_evenly(rows, task_count)]


def _join_pieces(pieces: Sequence[UnitPiece]) -> list[UnitPiece]:
    """Consecutive pieces, those of one slice as one piece: a piece is read from its start."""
    joined: list[UnitPiece] = []
    for piece in pieces:
        previous = joined[-1] if joined else None
        if (
            previous is not None
            and previous.lines is not None
            and piece.lines is not None
            and (previous.unit, previous.slice) == (piece.unit, piece.slice)
        ):
            assert previous.lines.take is not None, "the last piece of a file is the last one"
            take = piece.lines.take
            if take is not None:
                take += previous.lines.take
            joined[-1] = replace(previous, lines=replace(previous.lines, take=take))
        else:
            joined.append(piece)
    return joined
