"""What the past says about an event: the last answers of its recalls, and past events with what was done then."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.times import from_micros
from recall.confidence import load_calibration
from recall.ledger import Ledger
from recall.query import order_columns
from recall.similarity import answer_features

_QUERIES = sql.load("past")


@dataclass(frozen=True)
class SimilarEvent:
    """A past event like the new one. `past` holds its alert, context and notes; None where it is forgotten."""

    eid: UUID
    rank: int
    score: float
    ts: datetime
    shared: list[tuple[str, float]]
    only_new: list[str]
    only_past: list[str]
    past: Mapping[str, Any] | None

    @property
    def resolutions(self) -> list[Mapping[str, Any]]:
        """What fixed it, the last first."""
        notes = self.past["notes"] if self.past else []
        return [note for note in reversed(notes) if note["kind"] == "resolution"]

    @property
    def kind(self) -> str | None:
        """What it turned out to be: the tag of its last resolution that has one."""
        return next((note["tag"] for note in self.resolutions if note["tag"] is not None), None)


@dataclass(frozen=True)
class RecallAnswer:
    """The last answer of a recall. `rows` of an SQL recall, `hits` of a similarity recall; None: no answer yet."""

    recall: str
    kind: str
    state: str
    number: int
    coverage: Mapping[str, Any] | None
    rows: list[dict[str, Any]] | None
    hits: list[SimilarEvent] | None
    error: str | None
    """What has failed, wholly or in part."""
    estimates: list[dict[str, Any]] | None = None
    """For each row, by column: what is likely over all that was asked for, with its interval."""
    comparable: float | None = None
    """The probability that the best hit is of the same kind, once the answer is final and enough was learned; as it was
    when the answer became final, where that was stored."""


def load_answers(connection: Connection[Any], eid: UUID) -> list[RecallAnswer]:
    """The last answer of each recall of an event, similarity last."""
    found = [
        _make_answer(connection, row) for row in Ledger(connection).latest_answers(eid).values()
    ]
    return sorted(found, key=lambda answer: (answer.kind != "sql", answer.recall))


def load_past_events(
    connection: Connection[Any], eids: Iterable[UUID]
) -> dict[UUID, dict[str, Any]]:
    """Past events as people know them, by id."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return {row["eid"]: row for row in cursor.execute(_QUERIES["past"], {"eids": list(eids)})}


def _make_answer(connection: Connection[Any], row: Mapping[str, Any]) -> RecallAnswer:
    kind, rows = row["request"]["kind"], row["answer"]
    hits = None
    if kind == "similar" and rows is not None:
        events = load_past_events(connection, [UUID(hit["past_eid"]) for hit in rows])
        hits = [
            SimilarEvent(
                UUID(hit["past_eid"]),
                hit["rank"],
                hit["score"],
                from_micros(hit["past_ts"]),
                [(term, share) for term, share in hit["shared"]],
                hit["only_new"],
                hit["only_past"],
                events.get(UUID(hit["past_eid"])),
            )
            for hit in rows
        ]
    return RecallAnswer(
        row["recall"],
        kind,
        row["state"],
        row["number"] or 0,
        row["coverage"],
        None if hits is not None or rows is None else order_columns(row["request"]["sql"], rows),
        hits,
        row["error"],
        order_columns(row["request"]["sql"], row["estimates"]) if row["estimates"] else None,
        _comparable_probability(connection, row, hits) if hits else None,
    )


def _comparable_probability(
    connection: Connection[Any], row: Mapping[str, Any], hits: list[SimilarEvent]
) -> float | None:
    """See `Answer.comparable`. Stored with the answer; where it is not, by what is known now."""
    if row["comparable"] is not None:
        return float(row["comparable"])
    model = (
        load_calibration(connection, row["rule"], row["version"], row["recall"])
        if row["coverage"]["final"]
        else None
    )
    if model is None:
        return None
    events = row["answer"][0]["corpus"]["events"]
    return model.probability(
        answer_features([hit.score for hit in hits], [hit.kind for hit in hits], events)
    )


def describe_coverage(coverage: Mapping[str, Any]) -> str:
    """A coverage in words."""
    total = coverage["read"] + coverage["left"] + coverage["failed"]
    since = (
        "the beginning"
        if coverage["read_from"] is None
        else f"{from_micros(coverage['read_from']):%Y-%m-%d %H:%M}Z"
    )
    words = f"{coverage['read']} of {total} chunks, back to {since}"
    if coverage.get("by_summary"):
        words += f", {coverage['by_summary']} more ruled out by summaries"
    if coverage["failed"]:
        words += f", {coverage['failed']} failed"
    if coverage.get("changed"):
        words += f", rows came late into {coverage['changed']} of them since"
    if coverage["left"] and coverage.get("hopeful") is not None:
        no, some = (
            "no unread chunk can change this",
            f"{coverage['hopeful']} of the unread may change this",
        )
        words += f"; {some if coverage['hopeful'] else no}"
    if coverage["final"]:
        words += ", final" if not coverage["partial"] else ", final but partial"
    return words
