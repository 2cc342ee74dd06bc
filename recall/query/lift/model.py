"""What a query about an event may read, and what a lifted query reads."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sqlglot import exp

from archiver.times import Micros
from recall.query.bind import PhysicalTables
from recall.query.shape import Tables


@dataclass(frozen=True)
class EventScope:
    """What a query about an event may name.

    `attributes`: of the event. `event_tables`: tables with rows for each event, which have a column
    `_eid`: the rule's contexts, surroundings and answers. `hidden`: their columns that `*` does not
    include, by table.
    """

    tables: Tables
    attributes: tuple[str, ...]
    event_tables: frozenset[str] = frozenset()
    hidden: Mapping[str, Collection[str]] = field(default_factory=dict)


class AttributeFilter(NamedTuple):
    """A column of a stream equals an attribute of the event."""

    stream: str
    column: str
    attribute: str


@dataclass(frozen=True)
class QueryInputs:
    """What a query reads, by name in lower case.

    `derived`: streams that only windows of derived streams read. For a derived row at `ts` these
    are read from `ts - reach` to `ts + lag`.
    `attribute_filters`: those that hold for all rows that are needed of their stream.
    """

    streams: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()
    event_tables: frozenset[str] = frozenset()
    reach: Micros = 0
    lag: Micros = 0
    attribute_filters: tuple[AttributeFilter, ...] = ()


@dataclass(frozen=True)
class TableBindings:
    """The names under which tables, inputs of derived streams and pending events can be read.

    `range_table`: like that of pending events, with a row for each range of an event, where events
    read rows of several; None: they do not.
    """

    tables: PhysicalTables
    derived_inputs: PhysicalTables
    pending_table: str
    range_table: str | None = None


@dataclass(frozen=True)
class LiftedQuery:
    """The query for many events: its columns are `_eid`, then those of the original query."""

    query: exp.Select
    inputs: QueryInputs

    @cached_property
    def sql(self) -> str:
        """The query in Spark's SQL."""
        return self.query.sql(dialect="spark")
