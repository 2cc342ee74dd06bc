"""A query about one event, rewritten so that it runs for many events at once.

Users write `SELECT avg(cpu) AS mean FROM cpu WHERE host = event.host`, for one event. What runs is
one query over a table of pending events: each SELECT carries the event that its rows belong to.
Tables are joined with the pending events by time; joins add equality of the event; groups, window
functions and limits apply per event as well. So fifty events cost about as much as one, and no
value ever enters a query as text.

The rewriting is the unnesting of dependent joins (Neumann and Kemper, Unnesting Arbitrary Queries,
BTW 2015), for the part of SQL in which dependence comes through `event.<attribute>` and time alone.
No I/O.
"""

from dataclasses import replace

from sqlglot import exp

from recall.query.lift.model import (
    AttributeFilter,
    EventScope,
    LiftedQuery,
    QueryInputs,
    TableBindings,
)
from recall.query.lift.select import SelectLifter
from recall.query.lift.tables import named_subquery
from recall.query.parsing import parse
from recall.query.parts import normalize_aggregates
from recall.query.sql_names import EID

__all__ = [
    "AttributeFilter",
    "EventScope",
    "LiftedQuery",
    "QueryInputs",
    "TableBindings",
    "lift_query",
]


def lift_query(
    query: str | exp.Query,
    scope: EventScope,
    bindings: TableBindings,
    number_rows: bool = False,
    rows_in_range: bool = False,
) -> LiftedQuery:
    """The query for all events of a table of pending events. Raises `Unsupported`.

    That table has the columns `_eid`, `_event_ts`, `_low`, `_high`, and `_event_<attribute>` for
    each attribute. Rows of streams belong to an event if their time is in [_low, _high).

    `number_rows`: if the query has an order, add a last column `_row` that counts by it from 1.
    `rows_in_range`: all rows of streams are known to be in that range, which is then not checked.
    """
    if isinstance(query, str):
        parsed_query: exp.Query = normalize_aggregates(parse(query))
    else:
        parsed_query = query.copy()
    lifter = SelectLifter(scope, bindings, number_rows, rows_in_range)
    lifted = lifter.lift(parsed_query, frozenset())
    carried_columns = exp.Star(except_=lifter.carried_columns())
    outputs = exp.select(exp.column(EID, quoted=True), carried_columns)
    inputs = replace(lifter.inputs, attribute_filters=lifter.attribute_filters())
    return LiftedQuery(outputs.from_(named_subquery(lifted, "_q")), inputs)
