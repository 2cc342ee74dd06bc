"""Divides the source units of a batch among tasks."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from archiver.executors.jobs import Jobs
from archiver.executors.pieces import (
    PIECE_RECORDS,
    ByteRange,
    UnitPiece,
    bundle_pieces,
    divide_unit,
    is_divisible,
    plan_ranges,
)
from archiver.executors.tasks.decode import DecodeTask
from archiver.executors.tasks.reading import CountedRange, count_lines, parse_header
from archiver.ingest import SourceUnit
from archiver.ingest.engines import RecordSizes

_CountTask = tuple[SourceUnit, ByteRange]


class TaskPlanner:
    """Plans the tasks that decode a batch. The lines of large files are counted by a job."""

    def __init__(self, jobs: Jobs, sizes: RecordSizes) -> None:
        self._jobs = jobs
        self._sizes = sizes

    def plan(self, units: Sequence[SourceUnit]) -> list[DecodeTask]:
        """Tasks with consecutive pieces of the units, in the order of arrival."""
        estimated_rows = [self._sizes.estimate_rows([unit]) for unit in units]
        divisible = [position for position, unit in enumerate(units) if is_divisible(unit)]
        counted = self._count_lines(units, divisible)
        pieces: list[UnitPiece] = []
        rows: list[float] = []
        read_units = list(units)
        for position, unit in enumerate(units):
            ranges = counted.get(position)
            if ranges is None:
                pieces.append(UnitPiece(position))
                rows.append(estimated_rows[position])
                continue
            fields = parse_header(unit, ranges[0].header)
            has_header = unit.format.has_header and unit.fields is None
            read_units[position] = replace(unit, fields=fields)
            unit_pieces = divide_unit(
                position,
                list(chain.from_iterable(counted.counts for counted in ranges)),
                int(has_header),
                PIECE_RECORDS,
            )
            pieces += unit_pieces
            rows += [float(PIECE_RECORDS)] * len(unit_pieces)
        tasks: list[DecodeTask] = []
        for bundle in bundle_pieces(pieces, rows, self._jobs.cores):
            task_units = {piece.unit: read_units[piece.unit] for piece in bundle}
            tasks.append(DecodeTask(bundle, task_units))
        return tasks

    def _count_lines(
        self, units: Sequence[SourceUnit], divisible: Sequence[int]
    ) -> dict[int, list[CountedRange]]:
        """The lines of the ranges of files; without those that are read as a whole."""
        count_tasks: list[_CountTask] = []
        for position in divisible:
            size = units[position].size
            assert size is not None
            for byte_range in plan_ranges(position, size, self._jobs.cores):
                count_tasks.append((units[position], byte_range))
        if not count_tasks:
            return {}
        counted: dict[int, list[CountedRange]] = {}
        undivided: set[int] = set()
        results = self._jobs.map(_count, count_tasks)
        for (_, byte_range), result in zip(count_tasks, results, strict=True):
            if result is None or not result.is_linewise:
                undivided.add(byte_range.unit)
            else:
                counted.setdefault(byte_range.unit, []).append(result)
        return {unit: ranges for unit, ranges in counted.items() if unit not in undivided}


def _count(task: _CountTask) -> CountedRange | None:
    unit, byte_range = task
    return count_lines(unit, byte_range)
