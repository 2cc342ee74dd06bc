"""What agents get to see of alerts, in the order of what helps first. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from moirae.inspect.past_events import (
    PastNote,
    RecallAnswer,
    SimilarEvent,
    describe_coverage,
)
from moirae.mcp.pages import Part
from moirae.services.operations.alerts import AlertReport
from moirae.services.operations.similarity import DescribedAnswer
from sql.alerts import AlertNoteRow, AlertRow

_MAX_TERMS = 8  # shared context terms of a similar event


def list_report_parts(report: AlertReport) -> Iterator[Part]:
    """Norms, forecast, similar alerts with what fixed them, context, notes, surroundings."""
    for answer in report.recalls:
        if answer.rows is not None or answer.hits is None:
            yield Part("norms", _describe_answer(answer) | {"rows": answer.rows or []})
    for answer in report.recalls:
        if answer.forecast is not None:
            yield Part("probable_resolutions", {"recall": answer.recall, **answer.forecast})
    yield from list_similar_parts(report.recalls)
    if report.event is not None:
        for name, rows in (report.event.contexts or {}).items():
            yield Part("context", {"name": name, "rows": list(rows)})
    for note in report.alert.notes:
        yield Part("notes", _describe_note(asdict(note)))
    if report.event is not None:
        for name, rows in (report.event.surroundings or {}).items():
            yield Part("surroundings", {"name": name, "rows": list(rows)})


def list_similar_parts(answers: Any) -> Iterator[Part]:
    """The similar past events of all recalls, best first, each with its resolutions."""
    for answer in answers:
        if answer.hits is None:
            continue
        confidence = {"comparable": answer.comparable, "match": answer.match}
        yield Part("similarity", _describe_answer(answer) | confidence)
        for hit in answer.hits:
            yield Part("similar", _describe_hit(answer.recall, hit))


def list_described_parts(answer: DescribedAnswer) -> Iterator[Part]:
    """The past events that are similar to a described state."""
    details = vars(answer)
    yield Part("similarity", {name: details[name] for name in details if name != "hits"})
    for hit in answer.hits:
        yield Part("similar", _describe_hit(answer.recall, hit))


def describe_fix(alert: AlertRow, notes: Iterable[AlertNoteRow]) -> dict[str, Any]:
    """What fixed an alert, and what was checked."""
    described = [_describe_note(asdict(note)) for note in notes]
    return {
        "alert": alert.id,
        "key": alert.key,
        "starts_at": alert.starts_at,
        "ends_at": alert.ends_at,
        "resolutions": [note for note in described if note["kind"] == "resolution"],
        "checked": [note for note in described if note["kind"] == "checked"],
    }


def describe_alert(alert: AlertRow) -> dict[str, Any]:
    """An alert of a list."""
    return {
        "id": alert.id,
        "rule": alert.rule,
        "state": alert.state,
        "starts_at": alert.starts_at,
        "ends_at": alert.ends_at,
        "key": alert.key,
        "labels": alert.labels,
        "summary": alert.annotations.get("summary"),
        "acknowledged_by": alert.acknowledged_by,
        "assigned_to": alert.assigned_to,
    }


def describe_report(report: AlertReport) -> dict[str, Any]:
    """The head of an answer about one alert."""
    alert = report.alert
    return {
        "id": alert.id,
        "rule": alert.rule,
        "state": alert.state,
        "history": alert.history,
        "starts_at": alert.starts_at,
        "last_at": alert.last_at,
        "ends_at": alert.ends_at,
        "key": alert.key,
        "labels": alert.labels,
        "annotations": alert.annotations,
        "attributes": {} if report.event is None else report.event.attributes,
        "url": report.url,
    }


def _describe_answer(answer: RecallAnswer) -> dict[str, Any]:
    described: dict[str, Any] = {
        "recall": answer.recall,
        "state": answer.state,
        "coverage": answer.coverage,
    }
    if answer.coverage is not None:
        described["coverage_summary"] = describe_coverage(answer.coverage)
    if answer.estimates:
        described["estimates"] = answer.estimates
    if answer.error is not None:
        described["error"] = answer.error
    if answer.remaining_seconds is not None:
        described["remaining_seconds"] = round(answer.remaining_seconds, 1)
    return described


def _describe_hit(recall: str, hit: SimilarEvent) -> dict[str, Any]:
    described: dict[str, Any] = {
        "recall": recall,
        "rank": hit.rank,
        "score": round(hit.score, 3),
        "at": hit.ts,
        "event": hit.eid,
        "shared": [term for term, _ in hit.shared[:_MAX_TERMS]],
        "only_now": list(hit.only_new[:_MAX_TERMS]),
        "only_then": list(hit.only_past[:_MAX_TERMS]),
        "reasons": hit.reasons,
        "opinions": hit.judgements,
    }
    past = hit.past
    if past is not None:
        notes = [_describe_note(note) for note in past["notes"]]
        described |= {
            "alert": past["alert"],
            "key": past["key"],
            "ended_at": past["ends_at"],
            "again_within_7_days": past["again"],
            "resolutions": [note for note in notes if note["kind"] == "resolution"],
            "checked": [note for note in notes if note["kind"] == "checked"],
        }
    return described


def _describe_note(note: Mapping[str, Any] | PastNote) -> dict[str, Any]:
    names = (
        "kind",
        "author",
        "at",
        "text",
        "tag",
        "effect",
        "superseded_by",
        "link",
        "result",
        "outcome",
    )
    return {name: note.get(name) for name in names if note.get(name) is not None}
