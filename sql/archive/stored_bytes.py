"""The bytes of a workspace on disk by kind, as the live process has measured them last."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sql.gateway import Gateway
from sql.values import to_json_rows

ALL_CHUNKS = -1


@dataclass(frozen=True, slots=True)
class StoredBytesRow:
    """Bytes of one kind. `stream`: "" if of none, or of all. `chunk`: -1 if of none, or of all."""

    kind: str
    stream: str
    chunk: int
    bytes: int


class StoredBytesGateway(Gateway):
    queries = "stored_bytes"

    def list_all(self) -> list[StoredBytesRow]:
        """All that was measured last."""
        return self._records(StoredBytesRow, "list_all")

    def sum_by_chunk(self) -> dict[tuple[str, int], int]:
        """The bytes of the rows of all streams, by kind and chunk."""
        sums: dict[tuple[str, int], int] = {}
        for row in self.list_all():
            if row.chunk != ALL_CHUNKS:
                key = row.kind, row.chunk
                sums[key] = sums.get(key, 0) + row.bytes
        return sums

    def get_measured_at(self) -> datetime | None:
        """When it was measured; None: not yet."""
        measured_at: datetime | None = self._value("get_measured_at")
        return measured_at

    def replace(self, rows: Sequence[StoredBytesRow]) -> None:
        """Store what was measured, in place of what was measured before."""
        json_rows = [asdict(row) for row in rows]
        with self._connection.transaction():
            self._execute_rows("put_all", json_rows)
            self._execute("delete_others", rows=to_json_rows(json_rows))

    def measure_database(self) -> int:
        """The bytes of the database, with its indexes and free space."""
        return int(self._value("measure_database"))
