"""Limits of the evaluation: time of statements, events per rule. No I/O.

A statement is limited by the processor time of Spark's JVM: a machine that is busy with other work
makes no rule slow.
"""

import math
from collections.abc import Callable, Sequence

import pyarrow as pa

from moirae.alerts import EventRow

# Input after a pause, or for a thousand rules, may take long: a statement's limit grows with both.
_ROWS_PER_SECOND = 20_000  # rows that add a second of processor time
_RULES_PER_SECOND = 2  # rules that add a second of processor time
_MICROS_PER_MINUTE = 60_000_000


def statement_limit(base_limit: float, rows: int, rules: int) -> float:
    """The processor time, in seconds, that a statement of some rules over some rows may take."""
    return base_limit + rows / _ROWS_PER_SECOND + (rules - 1) / _RULES_PER_SECOND


def truncate_event_rows(
    event_rows: Sequence[EventRow], limit: int | None, limit_per_minute: int
) -> Sequence[EventRow]:
    """The first event rows by time, as many as a rule may return in one evaluation.

    `limit`: of the rule; without it `limit_per_minute` holds for each minute of event time that the
    rows span, as history that is read at once may contain many.
    """
    if len(event_rows) <= (limit or limit_per_minute):
        return event_rows
    if limit:
        max_rows = limit
    else:
        times = [row.ts for row in event_rows]
        minutes = math.ceil((max(times) - min(times)) / _MICROS_PER_MINUTE)
        max_rows = limit_per_minute * max(1, minutes)
    if len(event_rows) <= max_rows:
        return event_rows
    return sorted(event_rows, key=lambda row: (row.ts, repr(row.attributes)))[:max_rows]


def find_failing_row(rows: pa.Table, has_failure: Callable[[pa.Table], bool]) -> pa.Table | None:
    """The row over which a query fails, found by bisection; None if no single row makes it fail."""
    while len(rows) > 1:
        half = rows.slice(0, len(rows) // 2)
        if has_failure(half):
            rows = half
        else:
            rows = rows.slice(len(half))
    if len(rows) and has_failure(rows):
        return rows
    return None


def find_failing_rows(
    rows: pa.Table, has_failure: Callable[[pa.Table], bool], max_rows: int
) -> pa.Table | None:
    """The rows each of which a query fails over, found by halving what fails.

    None if there are none, or more than `max_rows`.
    """
    failing: list[pa.Table] = []
    pending = [rows]
    while pending:
        part = pending.pop()
        if not len(part) or not has_failure(part):
            continue
        if len(part) == 1:
            failing.append(part)
            if len(failing) > max_rows:
                return None
            continue
        middle = len(part) // 2
        pending += [part.slice(middle), part.slice(0, middle)]
    return pa.concat_tables(failing) if failing else None
