"""A question to history, taken apart and made fit for many events at once; what all engines share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from recall.errors import LimitExceeded
from recall.operators import MAX_ROWS, check_limits, merge_tables
from recall.query import (
    EventScope,
    LiftedQuery,
    PhysicalTables,
    TableBindings,
    Tables,
    lift_query,
    sql_names,
)
from recall.query.split import Split, split_query
from recall.requests import Piece, RecallEvent, SqlQuestion

# The rows of the rule's own tables: by table, by event.
EventTables = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
# Events, each with the piece of history that is read for it.
EventPieces = Sequence[tuple[RecallEvent, Piece]]

PENDING_TABLE = "_pending"
# Rows of partial answers that are looked at of several events together.
_MAX_BATCH_ROWS = 10 * MAX_ROWS


@dataclass(frozen=True)
class Template:
    """A question taken apart and made fit for many events at once."""

    question: SqlQuestion

    @cached_property
    def split(self) -> Split:
        return split_query(self.question.sql, self._tables, self.question.types)

    @cached_property
    def query_key(self) -> str:
        """What is asked, and all that says what it means; not when answers are wanted, and what
        becomes of them.
        """
        question = self.question
        return repr(
            (question.sql, question.streams, question.derived, question.attributes, question.types)
        )

    @cached_property
    def parameters(self) -> tuple[str, ...] | None:
        """The attributes of the event on which a partial answer depends, beside the piece. None:
        also on other things of the event: its time, its contexts, relations as they were then.
        """
        if self.partial.inputs.event_tables or self.partial.inputs.relations:
            return None
        found = (
            column
            for column in self.split.partial.find_all(exp.Column)
            if column.table.lower() == sql_names.EVENT
        )
        # Groups by the event keep events apart, and say nothing of it.
        columns = [
            column
            for column in found
            if not isinstance(column.parent, exp.Group) or column.name != "eid"
        ]
        names = {name.lower(): name for name in self.question.attributes}
        if any(column.name.lower() not in names for column in columns):
            return None
        return tuple(sorted({names[column.name.lower()] for column in columns}))

    @cached_property
    def partial(self) -> LiftedQuery:
        """For a piece of history."""
        return lift_query(self.split.partial, self._scope(frozenset()), self._bindings)

    @cached_property
    def partial_rows_in_range(self) -> LiftedQuery:
        """`partial` where all rows of streams that are read lie within the piece: their times are
        not read for that.
        """
        return lift_query(
            self.split.partial, self._scope(frozenset()), self._bindings, rows_in_range=True
        )

    @cached_property
    def merge(self) -> LiftedQuery:
        """For the merged partial answers."""
        return lift_query(
            self.split.merge,
            self._scope(frozenset({sql_names.MERGED_TABLE})),
            self._bindings,
            number_rows=True,
        )

    @cached_property
    def reads_event_tables(self) -> bool:
        """Whether it names the rule's own tables."""
        own = {name.lower() for name in self.question.own}
        queries = (self.split.partial, self.split.merge) if own else ()
        return any(
            table.name.lower() in own for query in queries for table in query.find_all(exp.Table)
        )

    @property
    def _tables(self) -> Tables:
        question = self.question
        return Tables(question.streams, frozenset(question.relations), question.derived)

    def _scope(self, own: frozenset[str]) -> EventScope:
        return EventScope(
            self._tables, tuple(self.question.attributes), own | self.question.own.keys()
        )

    @property
    def _bindings(self) -> TableBindings:
        question = self.question
        tables = {
            name: f"_in_{name}" for name in (*question.streams, *question.relations, *question.own)
        }
        inputs = {name: f"_on_time_{name}" for name in question.streams} | {
            n: f"_in_{n}" for n in question.relations
        }
        return TableBindings(
            PhysicalTables({**tables, sql_names.MERGED_TABLE: sql_names.MERGED_TABLE}),
            PhysicalTables(inputs),
            PENDING_TABLE,
        )


@dataclass(frozen=True)
class PartialQuery:
    """A question about some events, and the rows of the rule's own tables that it names."""

    template: Template
    event_pieces: EventPieces
    event_tables: EventTables


def merge_partials(
    template: Template,
    accumulator: pa.Table | None,
    partial: pa.Table | None,
    piece_seconds: float | None = None,
) -> pa.Table | None:
    """Two partial answers of one event as one; `length`: see `recall.operators.aggregates.merge`."""
    return merge_tables(template.split, accumulator, partial, piece_seconds)


def row_limit(events: int) -> int:
    """How many rows of partial answers of some events are looked at: enough to see that there are
    too many.
    """
    return (MAX_ROWS if events == 1 else _MAX_BATCH_ROWS) + 1


def split_by_event(template: Template, rows_table: pa.Table, events: int) -> dict[str, pa.Table]:
    """Rows of many events, by event. Raises `Exceeded` where one has too many, or all together."""
    if len(rows_table) >= row_limit(events):
        raise LimitExceeded(
            f"its answer has more than {row_limit(events) - 1:,} rows or groups: the limit; narrow it with WHERE"
        )
    rows: dict[str, list[int]] = {}
    for place, eid in enumerate(rows_table[sql_names.EID].to_pylist()):
        rows.setdefault(eid, []).append(place)
    tables = {eid: rows_table.take(places) for eid, places in rows.items()}
    for table in tables.values():
        check_limits(template.split, table)
    return tables


def relabel_event(eid: str, rows_table: pa.Table) -> pa.Table:
    """The same rows for another event."""
    place = rows_table.schema.get_field_index(sql_names.EID)
    return rows_table.set_column(
        place,
        rows_table.schema.field(sql_names.EID),
        pa.array([eid] * len(rows_table), rows_table.schema.field(sql_names.EID).type),
    )


def build_column_filter(
    template: Template, stream: str, columns: Mapping[str, str], events: Sequence[RecallEvent]
) -> dict[str, list[str]]:
    """Values of text columns of a stream that alone can be of use, so that other files and rows are
    not looked at.
    """
    only: dict[str, list[str]] = {}
    for name, column, attribute in template.partial.inputs.attribute_filters:
        if (
            name == stream
            and columns.get(column) == template.question.attributes.get(attribute) == "string"
        ):
            found = {event.attributes.get(attribute) for event in events}
            only[column] = sorted(value for value in found if isinstance(value, str))
    return only
