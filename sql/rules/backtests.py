"""Back-tests that clients of the server have started."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway

BacktestState = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class BacktestRow:
    """A back-test. `progress`: 0 to 1. `result`: what was found so far; None: nothing yet."""

    id: UUID
    author: str
    state: BacktestState
    progress: float
    result: Any
    error: str | None
    requested_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClaimedBacktest:
    """A back-test that a process has taken. `attempts`: how often it was taken."""

    id: UUID
    request: Mapping[str, Any]
    attempts: int


class BacktestGateway(Gateway):
    """The queue of back-tests. Who has claimed one shows signs of life until it has ended."""

    queries = "backtests"

    def add(self, id: UUID, author: str, request: Mapping[str, Any]) -> None:
        self._execute("add", id=id, author=author, request=Jsonb(request))

    def delete_old(self, min_age: timedelta) -> None:
        """Delete those that ended at least this long ago."""
        self._execute("delete_old", min_age=min_age.total_seconds())

    def count_open(self) -> int:
        """How many have not ended."""
        count: int = self._value("count_open")
        return count

    def get(self, id: UUID) -> BacktestRow | None:
        return self._record(BacktestRow, "get", id=id)

    def cancel(self, id: UUID) -> None:
        """Request the end of a back-test; has no effect on one that has ended."""
        self._execute("cancel", id=id)

    def has_work(self, lease: float) -> bool:
        """Whether one waits, or one had no sign of life for `lease` seconds."""
        return bool(self._value("has_work", lease=lease))

    def claim(self, lease: float) -> ClaimedBacktest | None:
        """Take the oldest that waits, or that had no sign of life for `lease` seconds."""
        return self._record(ClaimedBacktest, "claim", lease=lease)

    def beat(self, claimed: ClaimedBacktest) -> bool:
        """Store a sign of life. Returns whether to continue: not if it is cancelled or was lost."""
        row = self._execute("beat", id=claimed.id, attempt=claimed.attempts).fetchone()
        return row is not None and not row[0]

    def record(self, claimed: ClaimedBacktest, progress: float, result: Any) -> None:
        """Store what was found so far."""
        self._execute(
            "record",
            id=claimed.id,
            attempt=claimed.attempts,
            progress=progress,
            result=Jsonb(result),
        )

    def finish(
        self, claimed: ClaimedBacktest, state: BacktestState, error: str | None = None
    ) -> None:
        """End a back-test that is still one's own."""
        self._execute("finish", id=claimed.id, attempt=claimed.attempts, state=state, error=error)
