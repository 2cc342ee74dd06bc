"""Answers of recalls, computed again from what was stored with them: the same, or it is known why not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

import sql

_RECALLS = sql.load("recalls")


@dataclass(frozen=True)
class ReplayResult:
    """What came of asking again. `equal`: None where that cannot be known; `why`: what has expired, or where the
    answers differ."""

    answer: Sequence[Mapping[str, Any]]
    equal: bool | None
    reason: str | None = None


def not_reproducible(reason: str) -> ReplayResult:
    """It cannot be asked again."""
    return ReplayResult([], None, reason)


class Replayer(Protocol):
    """Computes an answer again; `row`: of the query `to_repeat`."""

    def __call__(self, row: Mapping[str, Any]) -> ReplayResult: ...


@dataclass(frozen=True)
class ReplayedAnswer:
    """The outcome for a recall's last revision. What it came from: `version` of the rule; the `corpus` that E and C_k
    count, or how many `appends` of each stream were there, at least and at most, when its pieces were read."""

    task: UUID
    recall: str
    rule: str
    version: str
    corpus: int | None
    appends: Mapping[str, tuple[int, int]]
    revision: int
    equal: bool | None
    why: str | None
    answer: Sequence[Mapping[str, Any]]


def replay(
    connection: Connection[Any], event_or_task_id: UUID, replayers: Mapping[str, Replayer]
) -> Iterator[ReplayedAnswer]:
    """The last answers of an event's recalls, or of the one recall with this id, again; `asks`: who asks, by the kind
    of question."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_RECALLS["to_repeat"], {"id": event_or_task_id}).fetchall()
    for row in rows:
        again = replayers[row["request"]["kind"]](row)
        about = (
            row["id"],
            row["recall"],
            row["rule"],
            row["version"],
            row["corpus"],
            _append_bounds(row["seen"]),
        )
        yield ReplayedAnswer(*about, row["number"], again.equal, again.reason, again.answer)


def _append_bounds(
    seen: Sequence[tuple[int, int, Mapping[str, int] | None]],
) -> dict[str, tuple[int, int]]:
    known = [appends for _, _, appends in seen if appends is not None]
    counts = {
        stream: [appends[stream] for appends in known if stream in appends]
        for one in known
        for stream in one
    }
    return {stream: (min(found), max(found)) for stream, found in counts.items()}
