"""Lines that the present declaration refuses, and that repeat rows of an earlier one.

Such a line is a duplicate, or was archived by an interrupted read of its unit: a field that was
undeclared, for example, whose value does not fit the type that it is declared with now.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from archiver.chunks import Chunk
from archiver.ingest.decoding import RefusedLine
from archiver.ingest.earlier_readings import read_as_declared
from archiver.ingest.engines.stream_appender import StreamAppender
from archiver.ingest.open_unit import OpenUnit


def count_archived_lines(
    open_unit: OpenUnit, appender: StreamAppender, chunks: Sequence[Chunk]
) -> None:
    """Count the malformed lines of a unit that are archived as what they repeat.

    `appender`: of the stream. `chunks`: all chunks, oldest first.
    """
    for number in range(len(appender.schema.earlier)):
        malformed = [line for line in open_unit.refused_lines if line.reason == "malformed"]
        archived_lines = _find_archived(open_unit, malformed, number, appender, chunks)
        for line in archived_lines:
            _count(open_unit, line)
        numbers = {archived.refused.line for archived in archived_lines}
        open_unit.refused_lines = [
            line
            for line in open_unit.refused_lines
            if line.reason != "malformed" or line.line not in numbers
        ]


@dataclass(frozen=True)
class _ArchivedLine:
    """A refused line, the event time of the row that it repeats, and whether the row is its own."""

    refused: RefusedLine
    ts: int
    is_replayed: bool


def _find_archived(
    open_unit: OpenUnit,
    lines: Sequence[RefusedLine],
    number: int,
    appender: StreamAppender,
    chunks: Sequence[Chunk],
) -> list[_ArchivedLine]:
    """The lines that repeat rows of the declaration of a number."""
    raw = [line.raw for line in lines]
    unit = open_unit.unit
    reading = unit.reading(open_unit.late_rule.clock, open_unit.fields)
    line_numbers = np.array([line.line for line in lines], np.int64)
    readings = read_as_declared(appender.schema, number, raw, reading, line_numbers)
    is_archived, entries = appender.find_readings(readings, chunks)
    archived_lines: list[_ArchivedLine] = []
    for position in np.flatnonzero(is_archived).tolist():
        refused = lines[int(readings["row"][position])]
        archived = entries[position]
        is_replayed = (int(archived["unit"]), int(archived["line"])) == (open_unit.id, refused.line)
        archived_lines.append(_ArchivedLine(refused, int(readings["ts"][position]), is_replayed))
    return archived_lines


def _count(open_unit: OpenUnit, line: _ArchivedLine) -> None:
    if not line.is_replayed:
        open_unit.add_counts(malformed=-1, duplicates=1)
        return
    rule = replace(open_unit.late_rule, lateness=None)
    late_rows = rule.flag_late(np.array([line.ts]))
    late = int(late_rows.late[0])
    open_unit.add_counts(
        malformed=-1,
        archived=1,
        late=late,
        replayed=1,
        replayed_late=late,
        late_by_ahead=int(late_rows.by_ahead[0]),
    )
