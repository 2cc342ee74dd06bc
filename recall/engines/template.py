"""Prepared queries of SQL recalls: split into partial and final query, lifted to many events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa
from sqlglot import exp

from archiver.time_range import TimeRange
from recall.errors import LimitExceeded
from recall.operators import MAX_ROWS, check_limits, merge_tables
from recall.query import PhysicalTables, Tables, sql_names
from recall.query.lift import EventScope, LiftedQuery, TableBindings, lift_query
from recall.query.split import Split, split_query
from recall.requests import Piece, RecallEvent, SqlQuestion, enclosing_range, union_ranges

# The rows of contexts and surroundings: by table, then by event ID.
EventTables = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
# Events, each with the piece of history to read for it.
EventPieces = Sequence[tuple[RecallEvent, Piece]]

PENDING_TABLE = "_pending"
RANGES_TABLE = "_pending_ranges"
# Limit of the rows of partial answers of several events together.
_MAX_BATCH_ROWS = 10 * MAX_ROWS


@dataclass(frozen=True)
class Template:
    """The query of a question, prepared for many events at once."""

    question: SqlQuestion

    @cached_property
    def split(self) -> Split:
        return split_query(self.question.sql, self._tables, self.question.types)

    @cached_property
    def query_key(self) -> str:
        """Identifies the query and what its names mean; independent of schedule and condition."""
        question = self.question
        return repr(
            (
                question.sql,
                question.streams,
                question.derived,
                question.attributes,
                question.types,
                self.reads_ranges,
            )
        )

    @property
    def reads_ranges(self) -> bool:
        """Whether an event may read several ranges of time: they have a table, `RANGES_TABLE`."""
        return self.question.reads_ranges

    @cached_property
    def parameters(self) -> tuple[str, ...] | None:
        """The attributes of the event that determine a partial answer, given the piece.

        None if more does: the event's time, its contexts, or relations as of its time; or if the
        piece may consist of several ranges.
        """
        if self.reads_ranges or self.partial.inputs.event_tables or self.partial.inputs.relations:
            return None
        names = self.question.attributes
        attributes = dict(zip(map(str.lower, names), names, strict=True))
        parameters = set()
        for column in self.split.partial.find_all(exp.Column):
            if column.table.lower() != sql_names.EVENT:
                continue
            if column.name == "eid" and isinstance(column.parent, exp.Group):
                continue  # keeps the rows of events apart, and does not depend on the event
            if column.name.lower() not in attributes:
                return None
            parameters.add(attributes[column.name.lower()])
        return tuple(sorted(parameters))

    @cached_property
    def partial(self) -> LiftedQuery:
        """The query of partial answers, over a piece of history."""
        return self._lift_partial(rows_in_range=False)

    @cached_property
    def partial_rows_in_range(self) -> LiftedQuery:
        """`partial` if all rows of streams lie in the piece: it does not compare their times."""
        return self._lift_partial(rows_in_range=True)

    def _lift_partial(self, rows_in_range: bool) -> LiftedQuery:
        return lift_query(
            self.split.partial,
            self._scope(frozenset()),
            self._bindings,
            number_rows=self.split.whole is not None,
            rows_in_range=rows_in_range,
        )

    @cached_property
    def merge(self) -> LiftedQuery:
        """The query of final answers, over merged partial answers."""
        return lift_query(
            self.split.merge,
            self._scope(frozenset({sql_names.MERGED_TABLE})),
            self._bindings,
            number_rows=True,
        )

    @cached_property
    def reads_event_tables(self) -> bool:
        """Whether the query names contexts or surroundings."""
        own_tables = set(map(str.lower, self.question.own))
        if not own_tables:
            return False
        tables = [
            *self.split.partial.find_all(exp.Table),
            *self.split.merge.find_all(exp.Table),
        ]
        return any(table.name.lower() in own_tables for table in tables)

    @property
    def _tables(self) -> Tables:
        question = self.question
        return Tables(question.streams, frozenset(question.relations), question.derived)

    def _scope(self, merged_tables: frozenset[str]) -> EventScope:
        return EventScope(
            self._tables,
            tuple(self.question.attributes),
            merged_tables | self.question.own.keys(),
        )

    @property
    def _bindings(self) -> TableBindings:
        question = self.question
        tables = {sql_names.MERGED_TABLE: sql_names.MERGED_TABLE}
        derived_inputs = {name: f"_on_time_{name}" for name in question.streams}
        for name in (*question.streams, *question.relations, *question.own):
            tables[name] = f"_in_{name}"
        for name in question.relations:
            derived_inputs[name] = f"_in_{name}"
        return TableBindings(
            PhysicalTables(tables),
            PhysicalTables(derived_inputs),
            PENDING_TABLE,
            RANGES_TABLE if self.reads_ranges else None,
        )


@dataclass(frozen=True)
class PartialQuery:
    """A query for some events, and the rows of contexts and surroundings that it names."""

    template: Template
    event_pieces: EventPieces
    event_tables: EventTables

    @property
    def events(self) -> list[RecallEvent]:
        return list(map(itemgetter(0), self.event_pieces))

    @property
    def pieces(self) -> list[Piece]:
        return list(map(itemgetter(1), self.event_pieces))

    @property
    def range(self) -> TimeRange:
        """The range that spans the event times that are read."""
        return enclosing_range(self.pieces)

    @property
    def ranges(self) -> tuple[TimeRange, ...]:
        """The event times that are read, in ascending order and apart."""
        return union_ranges(self.pieces)


def merge_partials(
    template: Template,
    accumulator: pa.Table | None,
    partial: pa.Table | None,
    turn_seconds: float | None = None,
) -> pa.Table | None:
    """Merge two partial answers of one event. `turn_seconds`: see `recall.operators`."""
    return merge_tables(template.split, accumulator, partial, turn_seconds)


def row_limit(events: int) -> int:
    """How many rows of partial answers to fetch: one more than is allowed."""
    if events == 1:
        return MAX_ROWS + 1
    return _MAX_BATCH_ROWS + 1


def split_by_event(template: Template, rows_table: pa.Table, events: int) -> dict[str, pa.Table]:
    """Partial answers by event ID. Raises `LimitExceeded` if an event has too many rows."""
    if len(rows_table) >= row_limit(events):
        raise LimitExceeded(
            f"more than {row_limit(events) - 1:,} rows or groups: narrow the query with WHERE"
        )
    rows_by_event: dict[str, list[int]] = {}
    for row_number, eid in enumerate(rows_table[sql_names.EID].to_pylist()):
        rows_by_event.setdefault(eid, []).append(row_number)
    tables = {eid: rows_table.take(numbers) for eid, numbers in rows_by_event.items()}
    for table in tables.values():
        check_limits(template.split, table)
    return tables


def relabel_event(eid: str, rows_table: pa.Table) -> pa.Table:
    """The same rows with another event ID."""
    position = rows_table.schema.get_field_index(sql_names.EID)
    field = rows_table.schema.field(position)
    return rows_table.set_column(position, field, pa.array([eid] * len(rows_table), field.type))
