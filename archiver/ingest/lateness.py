"""Which rows of a source unit are late, and which are ahead of the clock. No I/O.

A row is ahead if its event time is after the clock at which its unit was first read. It is on time
itself, but later rows are not compared with it: one clock that runs ahead would make the rows of
all others late.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from archiver.ingest.classify import Array, Mask, flag_late, flag_late_in_order, latest
from archiver.ingest.closed_keys import ClosedKeys, flag_closed
from archiver.times import Micros


class LateRows(NamedTuple):
    """Masks of rows.

    `by_ahead`: those of the late rows that would be on time, had the watermark not followed rows
    ahead of the clock.
    """

    late: Mask
    by_ahead: Mask


@dataclass(frozen=True, kw_only=True)
class LateRule:
    """What rows of a unit are compared with; times in microseconds.

    `clock`: at which the unit was first read; None: unknown, and no row is ahead. `before`: rows
    before this event time are late; None: none is. `before_by_rows`: the same without what follows
    from rows ahead. `lateness`: if set, rows are also late that lag behind an earlier row of the
    unit by more; `newest`: the newest event time of the rows before the unit that were not ahead.
    `closed_keys`: rows of these keys are also late before the time that is closed for them.
    """

    clock: Micros | None = None
    before: Micros | None = None
    before_by_rows: Micros | None = None
    lateness: Micros | None = None
    newest: Micros | None = None
    closed_keys: ClosedKeys = field(default_factory=dict)

    def flag_ahead(self, ts: Array) -> Mask:
        """Mask of the rows that are ahead of the clock."""
        if self.clock is None:
            return np.zeros(len(ts), dtype=bool)
        return np.asarray(ts > self.clock)

    def newest_not_ahead(self, ts: Array) -> Micros | None:
        """The newest event time that is not ahead of the clock; None without any."""
        past = ts[~self.flag_ahead(ts)]
        return int(past.max()) if len(past) else None

    def flag_late(self, ts: Array, newest: Micros | None = None) -> LateRows:
        """The late rows among the next rows of the unit.

        `newest`: the newest event time of its earlier rows that were not ahead.
        """
        late = self._flag_before(ts, newest, self.before)
        if self.before == self.before_by_rows:
            return LateRows(late, np.zeros(len(ts), dtype=bool))
        return LateRows(late, late & ~self._flag_before(ts, newest, self.before_by_rows))

    def flag_late_rows(
        self, rows: pa.Table, key: Sequence[str], ts: Array, newest: Micros | None = None
    ) -> LateRows:
        """As `flag_late`, for rows with their `key` columns: rows of closed keys are late, too."""
        late_rows = self.flag_late(ts, newest)
        if not self.closed_keys:
            return late_rows
        is_closed = flag_closed(rows, key, ts, self.closed_keys)
        return LateRows(late_rows.late | is_closed, late_rows.by_ahead & ~is_closed)

    def _flag_before(self, ts: Array, newest: Micros | None, bound: Micros | None) -> Mask:
        if self.lateness is None:
            return flag_late(ts, bound)
        is_ahead = self.flag_ahead(ts)
        return flag_late_in_order(ts, latest(self.newest, newest), self.lateness, bound, is_ahead)
