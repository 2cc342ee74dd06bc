"""A batch of rows in memory with its bounds of event time."""

from dataclasses import dataclass

import pyarrow as pa

from archiver.time_range import TimeRange
from archiver.times import Micros


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of one stream. `oldest` and `newest`: their bounds of event time."""

    rows: pa.Table
    oldest: Micros
    newest: Micros

    @property
    def bytes(self) -> int:
        """Size of the rows in Arrow memory."""
        return int(self.rows.nbytes)

    def overlaps(self, time_range: TimeRange) -> bool:
        """Whether there may be rows in a range."""
        return time_range.overlaps_times(self.oldest, self.newest)
