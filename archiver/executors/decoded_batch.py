"""A batch after its records were decoded: its units, and what is known of their rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from archiver.executors.grouping import assign_groups, find_shared_times
from archiver.executors.tasks.decode import DecodedSegment
from archiver.ingest import LateRule, OpenUnit, SourceUnit
from archiver.ingest.engines import IngestBatch, RegisteredUnit, StreamProgress

RegisteredUnits = Mapping[int, tuple[SourceUnit, RegisteredUnit]]
"""The units of a batch as the ledger has them, by position."""


@dataclass(frozen=True)
class DecodedBatch:
    """The opened units of a batch by position, and its segments by task.

    Rows arrive in the order of their units, whichever task decodes them.
    """

    opened: Mapping[int, OpenUnit]
    segments_by_task: Sequence[Sequence[DecodedSegment]]

    @property
    def unit_ids(self) -> list[int]:
        """The ledger ids of the units; 0 for positions without a unit."""
        unit_ids = [0] * (max(self.opened) + 1)
        for position, open_unit in self.opened.items():
            unit_ids[position] = open_unit.id
        return unit_ids

    @property
    def late_rules(self) -> list[LateRule]:
        """Which rows of each unit are late; no row for positions without a unit."""
        rules = [LateRule()] * (max(self.opened) + 1)
        for position, open_unit in self.opened.items():
            rules[position] = open_unit.late_rule
        return rules

    def arrival_by_task(self) -> list[list[int]]:
        """The position of each segment in the order of arrival."""
        by_task: list[list[int]] = [[0] * len(segments) for segments in self.segments_by_task]
        for position, (task, index) in enumerate(self._in_order()):
            by_task[task][index] = position
        return by_task

    def groups_by_task(self) -> list[list[int]]:
        """The group of each segment."""
        streams = {position: unit.unit.stream for position, unit in self.opened.items()}
        order = self._in_order()
        ordered = [self.segments_by_task[task][index] for task, index in order]
        by_task: list[list[int]] = [[0] * len(segments) for segments in self.segments_by_task]
        for (task, index), group in zip(order, assign_groups(ordered, streams), strict=True):
            by_task[task][index] = group
        return by_task

    def _in_order(self) -> list[tuple[int, int]]:
        """The task of each segment and its position there, in the order of arrival."""
        positions: list[tuple[int, int]] = []
        for task, segments in enumerate(self.segments_by_task):
            positions += [(task, index) for index in range(len(segments))]

        def arrival(position: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
            task, index = position
            segment = self.segments_by_task[task][index]
            return segment.unit, segment.slice, position

        return sorted(positions, key=arrival)

    def shared_times(self) -> dict[str, list[int]]:
        """By stream, the event times of which several tasks may have rows: `find_shared_times`."""
        by_stream: defaultdict[str, list[list[DecodedSegment]]] = defaultdict(list)
        for segments in self.segments_by_task:
            of_task: defaultdict[str, list[DecodedSegment]] = defaultdict(list)
            for segment in segments:
                of_task[self.opened[segment.unit].unit.stream].append(segment)
            for stream, members in of_task.items():
                by_stream[stream].append(members)
        return {stream: find_shared_times(tasks) for stream, tasks in by_stream.items()}

    @cached_property
    def segments_by_stream(self) -> dict[str, list[DecodedSegment]]:
        """The segments with rows."""
        by_stream: dict[str, list[DecodedSegment]] = {}
        for segments in self.segments_by_task:
            for segment in segments:
                if segment.rows:
                    stream = self.opened[segment.unit].unit.stream
                    by_stream.setdefault(stream, []).append(segment)
        return by_stream


def open_units(
    units: RegisteredUnits,
    segments_by_task: Sequence[Sequence[DecodedSegment]],
    batch: IngestBatch | StreamProgress,
) -> dict[int, OpenUnit]:
    """Open registered units, in order of their positions, with what was decoded."""
    segments_by_unit: defaultdict[int, list[DecodedSegment]] = defaultdict(list)
    for segments in segments_by_task:
        for segment in segments:
            segments_by_unit[segment.unit].append(segment)
    opened: dict[int, OpenUnit] = {}
    for position, (unit, registered) in sorted(units.items()):
        open_unit = batch.open_unit(unit, registered)
        for segment in segments_by_unit[position]:
            open_unit.add_counts(read=segment.records)
            open_unit.fields = segment.fields
            open_unit.add_punctuations(segment.punctuations)
            open_unit.add_refused(segment.refused_lines)
            open_unit.add_rows(segment.newest, segment.newest_not_ahead, segment.keys_ahead)
        batch.finish_reading(open_unit)
        opened[position] = open_unit
    return opened
