"""Tables of a query about an event, joined with the pending events that their rows belong to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from archiver.times import Micros
from recall.query.bind import bind_query
from recall.query.lift.model import EventScope, QueryInputs, TableBindings
from recall.query.parsing import Unsupported
from recall.query.shape import infer_shape
from recall.query.sql_names import (
    EID,
    EVENT_TS,
    HIGH,
    LOW,
    VALID_FROM,
    VALID_TO,
    attribute_column,
)

# Aliases: the table that is read, and the pending events.
_SOURCE = "_s"
_PENDING = "_e"


def carried_names(scope: EventScope) -> list[str]:
    """The columns that each row of a lifted query carries: its event, and what is known of it."""
    return [EID, EVENT_TS, *map(attribute_column, scope.attributes)]


def quoted_column(table: str, name: str) -> exp.Column:
    """A column as `table`.`name`."""
    return exp.column(name, table=table, quoted=True)


def named_subquery(query: exp.Query, alias: str) -> exp.Subquery:
    """A query in parentheses with a name."""
    identifier = exp.to_identifier(alias, quoted=True)
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier))


class RowEvent(NamedTuple):
    """From which tables in FROM a row has its event: the first of them that is there.

    Of an outer join, only one side may be.
    """

    aliases: tuple[str, ...]

    def column(self, name: str) -> exp.Expr:
        """A column that carries the event."""
        first, *alternatives = (quoted_column(alias, name) for alias in self.aliases)
        if not alternatives:
            return first
        return exp.Coalesce(this=first, expressions=alternatives)


class TableLifter:
    """Replaces tables by queries that carry the event. `inputs`: what these read so far."""

    def __init__(self, scope: EventScope, bindings: TableBindings, rows_in_range: bool) -> None:
        self._scope = scope
        self._bindings = bindings
        self._rows_in_range = rows_in_range
        self.inputs = QueryInputs()

    def lift(self, name: str, node: exp.Expr) -> exp.Select:
        """The rows of a table, each once for every event that it belongs to.

        `name` is in lower case; `node` is where the query names it. Raises `Unsupported`.
        """
        tables = self._scope.tables
        if name in self._scope.event_tables:
            return self._lift_event_table(name)
        if name in tables.relations:
            return self._lift_relation(name)
        if name in tables.streams:
            return self._lift_stream(name, tables.streams[name])
        if name in tables.derived:
            return self._lift_derived(name)
        raise Unsupported(f"unknown table {node.name!r}", node)

    def _lift_event_table(self, name: str) -> exp.Select:
        self._record_inputs(event_tables=frozenset({name}))
        same_event = exp.EQ(
            this=quoted_column(_SOURCE, EID), expression=quoted_column(_PENDING, EID)
        )
        return self._join_pending(self._bindings.tables[name], same_event, [EID])

    def _lift_relation(self, name: str) -> exp.Select:
        self._record_inputs(relations=frozenset({name}))
        event_time = quoted_column(_PENDING, EVENT_TS)
        is_valid = exp.and_(
            exp.GTE(this=event_time, expression=quoted_column(_SOURCE, VALID_FROM)),
            exp.LT(this=event_time.copy(), expression=quoted_column(_SOURCE, VALID_TO)),
        )
        return self._join_pending(self._bindings.tables[name], is_valid, [VALID_FROM, VALID_TO])

    def _lift_stream(self, name: str, time_column: str) -> exp.Select:
        self._record_inputs(streams=frozenset({name}))
        condition = exp.true() if self._rows_in_range else _in_time_range(time_column)
        if name in self._scope.tables.earlier:
            is_earlier = exp.LT(
                this=quoted_column(_SOURCE, time_column),
                expression=quoted_column(_PENDING, EVENT_TS),
            )
            condition = exp.and_(condition, is_earlier)
        return self._join_pending(self._bindings.tables[name], condition, [], self._range_table)

    def _lift_derived(self, name: str) -> exp.Select:
        tables = self._scope.tables
        shape = infer_shape(tables.derived[name], tables)
        self._record_inputs(
            derived=shape.streams, relations=shape.relations, reach=shape.reach, lag=shape.lag
        )
        rows = bind_query(tables.derived[name], tables, self._bindings.derived_inputs)
        return self._join_pending(
            exp.Subquery(this=rows), _in_time_range("ts"), [], self._range_table
        )

    @property
    def _range_table(self) -> str:
        """The table of pending events that the rows of streams are joined with."""
        return self._bindings.range_table or self._bindings.pending_table

    def _join_pending(
        self,
        source: exp.Expr,
        condition: exp.Expr,
        excluded: Sequence[str],
        pending_table: str | None = None,
    ) -> exp.Select:
        """`excluded`: columns of the source that the query does not see."""
        star = exp.Star()
        if excluded:
            star.set("except_", [exp.column(name, quoted=True) for name in excluded])
        columns = [exp.Column(this=star, table=exp.to_identifier(_SOURCE))]
        for name in carried_names(self._scope):
            columns.append(quoted_column(_PENDING, name))
        if isinstance(source, exp.Subquery):
            source.set("alias", exp.TableAlias(this=exp.to_identifier(_SOURCE)))
        else:
            source = exp.alias_(source, _SOURCE, table=True)
        events = exp.to_table(pending_table or self._bindings.pending_table)
        pending = exp.alias_(events, _PENDING, table=True)
        return exp.select(*columns).from_(source).join(pending, on=condition)

    def _record_inputs(self, reach: Micros = 0, lag: Micros = 0, **names: frozenset[str]) -> None:
        inputs = self.inputs
        for kind, added_names in names.items():
            inputs = replace(inputs, **{kind: getattr(inputs, kind) | added_names})
        self.inputs = replace(inputs, reach=max(inputs.reach, reach), lag=max(inputs.lag, lag))


def _in_time_range(time_column: str) -> exp.Expr:
    row_time = quoted_column(_SOURCE, time_column)
    return exp.and_(
        exp.GTE(this=row_time, expression=quoted_column(_PENDING, LOW)),
        exp.LT(this=row_time.copy(), expression=quoted_column(_PENDING, HIGH)),
    )
