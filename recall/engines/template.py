"""A question to history, taken apart and made fit for many events at once; what all engines share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from recall.operators.aggregates import ROWS, Exceeded, check, merge
from recall.query.bind import Physical
from recall.query.lift import EID, Lifted, Names, Scope, lift
from recall.query.parts import EVENT
from recall.query.shape import Tables
from recall.query.split import MERGED, Split, split
from recall.request import Asked, Piece, SqlQuestion

# The rows of the rule's own tables: by table, by event.
Own = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
# Events, each with the piece of history that is read for it.
Shares = Sequence[tuple[Asked, Piece]]

PENDING = "_pending"
# Rows of partial answers that are looked at of several events together.
_TOGETHER = 10 * ROWS


@dataclass(frozen=True)
class Template:
    """A question taken apart and made fit for many events at once."""

    question: SqlQuestion

    @cached_property
    def split(self) -> Split:
        return split(self.question.sql, self._tables, self.question.types)

    @cached_property
    def asked(self) -> str:
        """What is asked, and all that says what it means; not when answers are wanted, and what becomes of them."""
        question = self.question
        return repr((question.sql, question.streams, question.derived, question.attributes, question.types))

    @cached_property
    def parameters(self) -> tuple[str, ...] | None:
        """The attributes of the event on which a partial answer depends, beside the piece. None: also on other things
        of the event: its time, its contexts, relations as they were then."""
        if self.partial.used.own or self.partial.used.relations:
            return None
        found = (column for column in self.split.partial.find_all(exp.Column) if column.table.lower() == EVENT)
        # Groups by the event keep events apart, and say nothing of it.
        columns = [column for column in found if not isinstance(column.parent, exp.Group) or column.name != "eid"]
        names = {name.lower(): name for name in self.question.attributes}
        if any(column.name.lower() not in names for column in columns):
            return None
        return tuple(sorted({names[column.name.lower()] for column in columns}))

    @cached_property
    def partial(self) -> Lifted:
        """For a piece of history."""
        return lift(self.split.partial, self._scope(frozenset()), self._names)

    @cached_property
    def partial_within(self) -> Lifted:
        """`partial` where all rows of streams that are read lie within the piece: their times are not read for that."""
        return lift(self.split.partial, self._scope(frozenset()), self._names, within=True)

    @cached_property
    def merge(self) -> Lifted:
        """For the merged partial answers."""
        return lift(self.split.merge, self._scope(frozenset({MERGED})), self._names, numbered=True)

    @cached_property
    def names_own(self) -> bool:
        """Whether it names the rule's own tables."""
        own = {name.lower() for name in self.question.own}
        queries = (self.split.partial, self.split.merge) if own else ()
        return any(table.name.lower() in own for query in queries for table in query.find_all(exp.Table))

    @property
    def _tables(self) -> Tables:
        question = self.question
        return Tables(question.streams, frozenset(question.relations), question.derived)

    def _scope(self, own: frozenset[str]) -> Scope:
        return Scope(self._tables, tuple(self.question.attributes), own | self.question.own.keys())

    @property
    def _names(self) -> Names:
        question = self.question
        tables = {name: f"_in_{name}" for name in (*question.streams, *question.relations, *question.own)}
        inputs = {name: f"_on_time_{name}" for name in question.streams} | {n: f"_in_{n}" for n in question.relations}
        return Names(Physical({**tables, MERGED: MERGED}), Physical(inputs), PENDING)


@dataclass(frozen=True)
class Ask:
    """A question about some events, and the rows of the rule's own tables that it names."""

    template: Template
    shares: Shares
    own: Own


def merged(
    template: Template, held: pa.Table | None, more: pa.Table | None, length: float | None = None
) -> pa.Table | None:
    """Two partial answers of one event as one; `length`: see `recall.operators.aggregates.merge`."""
    return merge(template.split, held, more, length)


def cut(events: int) -> int:
    """How many rows of partial answers of some events are looked at: enough to see that there are too many."""
    return (ROWS if events == 1 else _TOGETHER) + 1


def by_event(template: Template, found: pa.Table, events: int) -> dict[str, pa.Table]:
    """Rows of many events, by event. Raises `Exceeded` where one has too many, or all together."""
    if len(found) >= cut(events):
        raise Exceeded(f"its answer has more than {cut(events) - 1:,} rows or groups: the limit; narrow it with WHERE")
    rows: dict[str, list[int]] = {}
    for place, eid in enumerate(found[EID].to_pylist()):
        rows.setdefault(eid, []).append(place)
    tables = {eid: found.take(places) for eid, places in rows.items()}
    for table in tables.values():
        check(template.split, table)
    return tables


def as_of(eid: str, found: pa.Table) -> pa.Table:
    """The same rows for another event."""
    place = found.schema.get_field_index(EID)
    return found.set_column(place, found.schema.field(EID), pa.array([eid] * len(found), found.schema.field(EID).type))


def wanted_only(
    template: Template, stream: str, columns: Mapping[str, str], asked: Sequence[Asked]
) -> dict[str, list[str]]:
    """Values of text columns of a stream that alone can be of use, so that other files and rows are not looked at."""
    only: dict[str, list[str]] = {}
    for name, column, attribute in template.partial.used.pins:
        if name == stream and columns.get(column) == template.question.attributes.get(attribute) == "string":
            found = {event.attributes.get(attribute) for event in asked}
            only[column] = sorted(value for value in found if isinstance(value, str))
    return only
