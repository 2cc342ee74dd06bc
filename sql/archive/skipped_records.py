"""Records that protocols brought and that are no rows."""

from collections.abc import Iterable
from dataclasses import dataclass

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """The number of records of a stream that are no rows, for a reason.

    `stream`: empty for records that no stream takes.
    """

    stream: str
    reason: str
    records: int


class SkippedRecordsGateway(Gateway):
    """Counters by stream and reason."""

    queries = "skipped_records"

    def add(self, rows: Iterable[SkippedRow]) -> None:
        """Add to the counters."""
        self._execute_many(
            "add",
            [
                {"stream": row.stream, "reason": row.reason, "records": row.records}
                for row in sorted(rows, key=lambda row: (row.stream, row.reason))
            ],
        )

    def list_all(self) -> list[SkippedRow]:
        """All counters, by stream and reason."""
        return self._records(SkippedRow, "list_all")
