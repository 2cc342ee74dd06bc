"""Records that were lost before they were read."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sql.gateway import Gateway

LossReason = Literal["deleted", "recreated", "truncated", "removed"]


@dataclass(frozen=True, slots=True)
class LostRecordsRow:
    """Records of a partition that were lost before they were read.

    `last_offset` None: it is not known how many there were. `acknowledged_at` None: nobody has
    acknowledged the loss.
    """

    id: int
    stream: str
    topic: str
    partition: str
    first_offset: int
    last_offset: int | None
    reason: LossReason
    noticed_at: datetime
    acknowledged_at: datetime | None


@dataclass(frozen=True, slots=True)
class LostRecordsCount:
    """Losses of a stream for one reason. `records`: lost, as far as their number is known.

    `open`: number of losses that nobody has acknowledged.
    """

    stream: str
    reason: LossReason
    records: int
    open: int


class LostRecordsGateway(Gateway):
    queries = "lost_records"

    def insert(
        self,
        stream: str,
        *,
        topic: str,
        partition: str,
        first_offset: int,
        last_offset: int | None,
        reason: LossReason,
    ) -> None:
        """Record a loss."""
        self._execute(
            "insert",
            stream=stream,
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
            reason=reason,
        )

    def list_open(self) -> list[LostRecordsRow]:
        """The losses that nobody has acknowledged, oldest first."""
        return self._records(LostRecordsRow, "list_open")

    def list_newest(
        self, stream: str | None, limit: int, before: int | None = None
    ) -> list[LostRecordsRow]:
        """All losses, newest first; of one stream, unless None. `before`: only with lower ids."""
        return self._records(
            LostRecordsRow, "list_newest", stream=stream, limit=limit, before=before
        )

    def count(self, stream: str | None) -> int:
        """Number of losses; of one stream, unless None."""
        return int(self._value("count", stream=stream))

    def acknowledge(self, stream: str) -> list[LostRecordsRow]:
        """Acknowledge the losses of a stream; returns those that nobody had acknowledged."""
        return self._records(LostRecordsRow, "acknowledge", stream=stream)

    def count_by_reason(self) -> list[LostRecordsCount]:
        """The losses of each stream, by reason."""
        return self._records(LostRecordsCount, "count_by_reason")
