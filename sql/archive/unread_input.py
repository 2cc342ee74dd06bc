"""Since when the oldest unread input of each stream waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class UnreadInputRow:
    """A stream with unread input. `oldest_at`: when the oldest arrived. `checked_at`: last look."""

    stream: str
    oldest_at: datetime
    checked_at: datetime


class UnreadInputGateway(Gateway):
    """What the live process saw when it last looked."""

    queries = "unread_input"

    def put(self, stream: str, oldest_at: datetime | None) -> None:
        """Store when the oldest unread input of a stream arrived; None: all is archived."""
        self._execute("put", stream=stream, oldest_at=oldest_at)

    def delete_others(self, streams: Sequence[str]) -> None:
        """Forget all streams but those declared."""
        self._execute("delete_others", streams=list(streams))

    def list_all(self) -> list[UnreadInputRow]:
        """The streams that have unread input, the longest wait first."""
        return self._records(UnreadInputRow, "list_all")
