"""A batch of rows in memory with its bounds of event time."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, eq=False)
class RowBatch:
    """Rows of one stream. `oldest` and `newest`: their bounds of event time in microseconds."""

    rows: pa.Table
    oldest: int
    newest: int

    @property
    def bytes(self) -> int:
        """Size of the rows in Arrow memory."""
        return int(self.rows.nbytes)

    def overlaps(self, low: int | None, high: int | None) -> bool:
        """Whether there may be rows in [low, high); None: unbounded."""
        return (low is None or self.newest >= low) and (high is None or self.oldest < high)
