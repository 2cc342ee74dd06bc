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


@dataclass(frozen=True, slots=True)
class ChunkBytesRow:
    """The bytes of the rows of a stream in a closed chunk, whose times are in microseconds."""

    stream: str
    from_ts: int
    to_ts: int
    bytes: int


class StoredBytesGateway(Gateway):
    queries = "stored_bytes"

    def sum_by_kind(self) -> dict[tuple[str, str], int]:
        """Bytes by kind and stream; "": of none, or of all."""
        return {(kind, stream): size for kind, stream, size in self._execute("sum_by_kind")}

    def sum_by_chunk(self) -> dict[tuple[str, int], int]:
        """The bytes of the rows of all streams, by kind and chunk."""
        return {(kind, chunk): size for kind, chunk, size in self._execute("sum_by_chunk")}

    def list_recent_chunks(self) -> list[ChunkBytesRow]:
        """Closed chunks of the newest 31 days with the bytes of each stream, oldest first."""
        return self._records(ChunkBytesRow, "list_recent_chunks")

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
