"""Event time that sources have closed for single keys."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class ClosedKeyRow:
    """A key of a stream, and the event time before which no more of its rows were to come.

    `partition`: whose records say so; empty: of a stream without partitions. `columns`: the key
    columns then; `key`: their values as text, None: NULL.
    """

    stream: str
    partition: str
    columns: Sequence[str]
    key: Sequence[str | None]
    closed: datetime


class ClosedKeyGateway(Gateway):
    queries = "closed_keys"

    def list_all(self) -> list[ClosedKeyRow]:
        """All keys, in no particular order."""
        return self._records(ClosedKeyRow, "list_all")

    def put(self, rows: Iterable[ClosedKeyRow]) -> None:
        """Close event time for keys; earlier times than the stored ones are ignored."""
        self._execute_many("put", map(asdict, rows))

    def delete_passed(self, stream: str, partition: str, watermark: datetime) -> None:
        """Delete the keys of a source whose closed time its watermark has reached."""
        self._execute("delete_passed", stream=stream, partition=partition, watermark=watermark)
