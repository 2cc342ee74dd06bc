"""What a rule may take, decided. Pure.

Time is the processor time of Spark's JVM: a machine that is busy with other things makes no rule slow.
"""

import math
from collections.abc import Callable, Sequence

import pyarrow as pa

from moirae.alerts.event import Found

# Rows, and rules in one statement, that each lengthen its limit by a second: what is read at once after a pause, or by
# a thousand rules, may take long.
_ROWS, _RULES = 20_000, 2
# By the clock a statement may take so many times its limit: it may hang without computing.
_PATIENCE = 10
# Microseconds of event time over which the limit of matches goes: history read at once may hold many.
_MINUTE = 60_000_000


def seconds(limit: float, rows: int, rules: int) -> float:
    """The processor time that a statement of some rules over some rows may take."""
    return limit + rows / _ROWS + (rules - 1) / _RULES


def too_long(limit: float, processor: float, clock: float) -> bool:
    """Whether a statement is over its limit, all in seconds."""
    return processor > limit or clock > limit * _PATIENCE


def kept(found: Sequence[Found], limit: int | None, usual: int) -> Sequence[Found]:
    """The first rows by time, as many as a rule may find in one evaluation: its own `limit`, or what is `usual` for
    each minute of event time that they span."""
    if not found or len(found) <= (limit or usual):
        return found
    times = [one.ts for one in found]
    most = limit or usual * max(1, math.ceil((max(times) - min(times)) / _MINUTE))
    return found if len(found) <= most else sorted(found, key=lambda one: (one.ts, repr(one.attributes)))[:most]


def culprit(rows: pa.Table, fails: Callable[[pa.Table], bool]) -> pa.Table | None:
    """The one row at which a query over all of them fails; None where no single row is at fault."""
    while len(rows) > 1:
        half = rows.slice(0, len(rows) // 2)
        rows = half if fails(half) else rows.slice(len(half))
    return rows if len(rows) and fails(rows) else None
