"""Answers of an event's recalls, and the past events that they name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from typing_extensions import TypedDict

import sql
from moirae.alerts import FixRecords
from sql.events import EventGateway
from sql.recalls import LastAnswerRow
from sql.reports import OverviewGateway
from sql.stages import RowRevisionGateway, StageRow

if TYPE_CHECKING:
    from recall.confidence import MatchConfidence

_OPEN_STATES = ("waiting", "running", "suspended")
# In the order in which answers are shown.
_KINDS = ("sql", "similar", "stage")


class PastNote(TypedDict):
    """A note about the alert of a past event: `sql.alerts.AlertNoteRow`. `at`: in ISO 8601."""

    kind: str
    author: str
    text: str
    tag: str | None
    result: str | None
    outcome: str | None
    effect: str | None
    superseded_by: str | None
    link: str | None
    recorded_tag: str | None
    at: str


def find_remedy(note: PastNote) -> str | None:
    """The tag that recalls learn from a resolution: the column `remedy` of `alert_notes`."""
    effect = note.get("effect")  # a server of an earlier version has none
    if effect == "did not help":
        return None
    if effect == "superseded":
        return note["superseded_by"]
    return note["tag"] or effect


class PastEvent(TypedDict):
    """A past event with its alert, context and notes: the fields of `sql.events.PastEventRow`."""

    eid: UUID
    rule: str
    ts: datetime
    attributes: Mapping[str, Any]
    key: Mapping[str, Any]
    alert: UUID | None
    state: str | None
    annotations: Mapping[str, str] | None
    starts_at: datetime | None
    ends_at: datetime | None
    last_at: datetime | None
    contexts: Mapping[str, Any] | None
    again: int
    notes: Sequence[PastNote]


class Opinion(TypedDict):
    """Whether a person found a past event relevant."""

    author: str
    helps: bool


@dataclass(frozen=True)
class SimilarEvent:
    """A past event that is similar to an event."""

    eid: UUID
    rank: int
    """From 1, the most similar event."""
    score: float
    ts: datetime
    shared: list[tuple[str, float]]
    """Context terms of both events with their share of the score, largest first."""
    only_new: list[str]
    """Context terms of the new event only."""
    only_past: list[str]
    """Context terms of the past event only."""
    past: PastEvent | None
    """The alert, context and notes of the past event; None where they have been deleted."""
    parts: Mapping[str, float] | None = None
    """By the measure `learned`: what shared terms, resolution, and place and age add to its rank."""
    tag_terms: list[tuple[str, float]] = field(default_factory=list)
    """The terms that speak for the past event's resolution, by the measure `learned`."""
    reasons: list[str] = field(default_factory=list)
    """Why it is similar and why it is not the same: at most three sentences."""
    judgements: list[Opinion] = field(default_factory=list)
    """Whether people found the past event relevant to the event, newest first."""

    @property
    def resolutions(self) -> list[PastNote]:
        """Notes that record how the alert was resolved, newest first."""
        if self.past is None:
            return []
        return [note for note in reversed(self.past["notes"]) if note["kind"] == "resolution"]

    @property
    def kind(self) -> str | None:
        """The tag of its remedy, by the newest resolution that has a tag or an effect."""
        for note in self.resolutions:
            if note["tag"] is not None or note.get("effect") is not None:
                return find_remedy(note)
        return None


@dataclass(frozen=True)
class RecallAnswer:
    """The last answer of a recall, or the rows of a stage.

    `kind`: sql, similar or stage. A similarity recall has `hits`, the others have `rows`. Both are
    None without an answer.
    """

    recall: str
    kind: str
    state: str
    number: int
    """Number of the revision, 0 without an answer."""
    coverage: Mapping[str, Any] | None
    rows: list[dict[str, Any]] | None
    hits: list[SimilarEvent] | None
    error: str | None
    """Why the recall, or a part of it, has failed."""
    estimates: list[dict[str, Any]] | None = None
    """For each row, by column: the estimate for the whole range, with its interval."""
    forecast: Mapping[str, Any] | None = None
    """By the measure `learned`: `tags`, the most probable resolutions with their probabilities, and
    `new_tag`, the probability of none of these. `records`: what became of alerts with these tags."""
    candidates: int | None = None
    """Among how many events a similarity recall ranked; None: among all."""
    comparable: float | None = None
    """The calibrated probability that the best hit is of the same kind.

    None until the answer is final, and where there are too few judged events to learn from. It is
    stored with the answer; for older answers it is computed from the present calibration.
    """
    match: Mapping[str, Any] | None = None
    """Of a final answer by another measure than `learned`: `probability` (as `comparable`) and
    `nothing_comparable`, the probability that nothing in the history is of the same kind, with
    their 95 % intervals; `episodes`, from how many that was learned. `withheld`: there are too few
    to say."""
    id: UUID | None = None
    """The ID of the recall."""
    remaining_seconds: float | None = None
    """The forecast of when the recall ends; None: it has ended, or waits for feedback."""
    retry_at: datetime | None = None
    """When the query that failed last is tried again; None: at once, or none failed."""


def load_answers(connection: sql.Connection, eid: UUID, concurrency: int = 1) -> list[RecallAnswer]:
    """The last answer of each recall of an event: SQL, similarity recalls, stages, by name.

    `concurrency`: history queries that run at once, for the forecast.
    """
    from recall.ledger import Ledger
    from recall.ledger.commands import forecast_tasks

    rows = Ledger(connection).latest_answers(eid).values()
    open_tasks = [row.task for row in rows if row.state in _OPEN_STATES]
    remaining: Mapping[UUID, float | None] = {}
    if open_tasks:
        remaining = forecast_tasks(connection, open_tasks, concurrency)
    records = FixRecords(connection)
    answers = [_make_answer(connection, eid, row, remaining.get(row.task), records) for row in rows]
    stages = {row.name: row for row in RowRevisionGateway(connection).list_stages(eid)}
    answers += map(_make_stage_answer, stages.values())
    return sorted(answers, key=lambda answer: (_KINDS.index(answer.kind), answer.recall))


def load_past_events(connection: sql.Connection, eids: Iterable[UUID]) -> dict[UUID, PastEvent]:
    """Events with their alert, context and notes, by ID. Deleted events are left out."""
    rows = EventGateway(connection).list_past(eids)
    return {row.eid: cast(PastEvent, asdict(row)) for row in rows}


def make_hits(
    connection: sql.Connection, eid: UUID, answer: Sequence[Mapping[str, Any]]
) -> list[SimilarEvent]:
    """The hits of a stored answer of a similarity recall about an event."""
    return _load_hits(connection, eid, answer)


def _make_answer(
    connection: sql.Connection,
    eid: UUID,
    row: LastAnswerRow,
    remaining_seconds: float | None,
    records: FixRecords,
) -> RecallAnswer:
    from recall.confidence import MatchConfidence

    hits = None
    rows = None
    estimates = None
    confidence = MatchConfidence(row.comparable, row.match)
    forecast = row.forecast
    if forecast is not None:
        forecast = records.add_to(forecast, row.rule)
    candidates = None
    if row.request["kind"] == "similar":
        if row.answer is not None:
            hits = _load_hits(connection, eid, row.answer)
        if hits and row.answer:
            candidates = row.answer[0].get("corpus", {}).get("candidates")
        if row.comparable is None and row.match is None and row.forecast is None:
            confidence = _estimate_match(connection, row, hits)
    else:
        rows = _order_columns(row.request["sql"], row.answer)
        estimates = _order_columns(row.request["sql"], row.estimates or None)
    return RecallAnswer(
        recall=row.recall,
        kind=row.request["kind"],
        state=row.state,
        number=row.number or 0,
        coverage=row.coverage,
        rows=rows,
        hits=hits,
        error=row.error,
        estimates=estimates,
        forecast=forecast,
        candidates=candidates,
        comparable=confidence.comparable,
        match=confidence.match,
        id=row.task,
        remaining_seconds=remaining_seconds,
        retry_at=row.retry_at,
    )


def _make_stage_answer(row: StageRow) -> RecallAnswer:
    return RecallAnswer(
        recall=row.name,
        kind="stage",
        state=row.state,
        number=row.revision,
        coverage=None,
        rows=list(map(dict, row.rows)),
        hits=None,
        error=row.error,
    )


def _order_columns(
    query: str, rows: Sequence[Mapping[str, Any]] | None
) -> list[dict[str, Any]] | None:
    """The rows with columns in the order of the SELECT."""
    from recall.query import order_columns

    if rows is None:
        return None
    return order_columns(query, rows)


def _load_hits(
    connection: sql.Connection, eid: UUID, rows: Sequence[Mapping[str, Any]]
) -> list[SimilarEvent]:
    from archiver.times import from_micros
    from recall.similarity_reasons import explain_similarity

    opinions: dict[UUID, list[Opinion]] = {}
    for judgement in OverviewGateway(connection).list_judgements(eid):
        opinion = Opinion(author=judgement.author, helps=judgement.helps)
        opinions.setdefault(judgement.past_eid, []).append(opinion)
    past_events = load_past_events(connection, [UUID(row["past_eid"]) for row in rows])
    hits: list[SimilarEvent] = []
    for row in rows:
        past_eid = UUID(row["past_eid"])
        event = SimilarEvent(
            eid=past_eid,
            rank=row["rank"],
            score=row["score"],
            ts=from_micros(row["past_ts"]),
            shared=list(map(tuple, row["shared"])),
            only_new=row["only_new"],
            only_past=row["only_past"],
            parts=row.get("parts"),
            tag_terms=list(map(tuple, row.get("tag_terms", ()))),
            reasons=explain_similarity(row["shared"], row["only_new"], row["only_past"]),
            past=past_events.get(past_eid),
            judgements=opinions.get(past_eid, []),
        )
        hits.append(event)
    return hits


def _estimate_match(
    connection: sql.Connection, row: LastAnswerRow, hits: Sequence[SimilarEvent] | None
) -> "MatchConfidence":
    """See `RecallAnswer.comparable`."""
    from recall.confidence import MatchConfidence, match_confidence

    if hits is None or row.answer is None or row.coverage is None or not row.coverage["final"]:
        return MatchConfidence(None, None)
    recall = (row.rule, row.version, row.recall)
    kinds = list(map(attrgetter("kind"), hits))
    return match_confidence(connection, recall, row.answer, kinds=kinds)


def count_chunks(coverage: Mapping[str, Any]) -> tuple[int, int]:
    """Of how many chunks the content is known, read or by their summary; and how many there are."""
    known_count = coverage["read"] + coverage.get("by_summary", 0)
    return known_count, known_count + coverage["left"] + coverage["failed"]


def is_cut_by_retention(coverage: Mapping[str, Any]) -> bool:
    """Whether all that exists was read, but a part of the requested range has expired."""
    is_all_read = not coverage["left"] and not coverage["failed"]
    return bool(is_all_read and coverage["partial"] and coverage.get("asked_from") is not None)


def describe_coverage(coverage: Mapping[str, Any]) -> str:
    """A coverage in a line: chunks read of all, and what they leave open."""
    from archiver.times import from_micros

    skipped = coverage.get("by_summary", 0)
    known_count, chunk_count = count_chunks(coverage)
    start = "the beginning"
    if coverage["read_from"] is not None:
        start = f"{from_micros(coverage['read_from']):%Y-%m-%d %H:%M}Z"
    parts = [f"{known_count} of {chunk_count} chunks, back to {start}"]
    if coverage.get("asked_to") is not None:
        parts.append(f"up to {from_micros(coverage['asked_to']):%Y-%m-%d %H:%M}Z")
    if coverage.get("ranges", 1) != 1:
        parts.append(f"{coverage['ranges']} ranges of time")
    if skipped:
        parts.append(f"{skipped} of them by their summary")
    if coverage.get("summarised"):
        parts.append(f"{coverage['summarised']} of them from summaries")
    if coverage["failed"]:
        parts.append(f"{coverage['failed']} failed")
    if coverage.get("changed"):
        parts.append(f"late rows in {coverage['changed']} of them since")
    if coverage["left"] and coverage.get("hopeful") is not None:
        hopeful = coverage["hopeful"] or "none"
        parts.append(f"{hopeful} of the unread chunks can change the answer")
    if coverage.get("context") == "provisional":
        parts.append("compared by a provisional context")
    if is_cut_by_retention(coverage):
        parts.append(
            f"asked from {from_micros(coverage['asked_from']):%Y-%m-%d %H:%M}Z, older rows expired"
        )
    for stream, until in coverage.get("ended", {}).items():
        parts.append(f"rows of {stream} before {from_micros(until):%Y-%m-%d %H:%M}Z expired")
    for column, (low, high) in coverage.get("unread", {}).items():
        parts.append(f"{column} of unread rows is between {low:.15g} and {high:.15g}")
    if coverage["final"]:
        parts.append("final but partial" if coverage["partial"] else "final")
    return ", ".join(parts)
