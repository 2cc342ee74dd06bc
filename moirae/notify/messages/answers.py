"""What history says of alerts, for their messages: norms, similar alerts with what fixed them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import sql
from archiver.times import from_micros
from moirae.alerts import FixRecords
from moirae.notify.messages.content import format_time
from moirae.notify.messages.forecast import describe_forecast
from moirae.notify.routing.alert import NotifiedAlert
from recall.similarity_reasons import explain_similarity
from sql.notifications import AnswerOfEventRow, FixRow, NotifyStateGateway

_MAX_ALERTS = 50  # of one round whose history is read: a message of thousands names them without
_MAX_HITS = 3
_MAX_ROWS = 3  # of an SQL recall
_MAX_TEXT = 500  # characters of a note or a value
_JUDGED = ("usual", "higher", "lower")  # verdicts of norms that say whether a value is normal


def find_history(
    connection: sql.Connection, alerts: Sequence[NotifiedAlert]
) -> Mapping[str, Mapping[str, Any]]:
    """What is known of alerts, by ID; alerts without an answer are missing."""
    return find_history_of(connection, {alert.id: alert.eid for alert in alerts[:_MAX_ALERTS]})


def find_history_of(
    connection: sql.Connection, events: Mapping[UUID, UUID]
) -> Mapping[str, Mapping[str, Any]]:
    """As `find_history`. `events`: the first events of alerts."""
    if not events:
        return {}
    gateway = NotifyStateGateway(connection)
    answers = gateway.list_answers(list(events.values()))
    if not answers:
        return {}
    records = FixRecords(connection)
    answers = [_add_records(records, answer) for answer in answers]
    past_events = {UUID(hit["past_eid"]) for answer in answers for hit in _list_hits(answer)}
    fixes = {fix.eid: fix for fix in gateway.list_fixes(past_events)} if past_events else {}
    by_event: dict[UUID, list[AnswerOfEventRow]] = {}
    for answer in answers:
        by_event.setdefault(answer.eid, []).append(answer)
    return {
        str(alert_id): describe_answers(by_event[eid], fixes)
        for alert_id, eid in events.items()
        if eid in by_event
    }


def _add_records(records: FixRecords, answer: AnswerOfEventRow) -> AnswerOfEventRow:
    if answer.forecast is None:
        return answer
    return replace(answer, forecast=records.add_to(answer.forecast, answer.rule))


def describe_answers(
    answers: Sequence[AnswerOfEventRow], fixes: Mapping[UUID, FixRow]
) -> dict[str, Any]:
    """Answers of an event. `fixes`: what is known of past events."""
    described: dict[str, Any] = {}
    for answer in answers:
        if answer.kind == "similar":
            similar = [_describe_hit(hit, fixes) for hit in _list_hits(answer)]
            described.setdefault("similar", []).extend(similar)
            if answer.comparable is not None:
                described["comparable"] = answer.comparable
            if answer.match is not None:
                described["match"] = answer.match
            if answer.forecast is not None:
                described |= describe_forecast(answer.forecast)
        else:
            rows = [_shorten(row) for row in (answer.answer or ())[:_MAX_ROWS]]
            norm: dict[str, Any] = {"rows": rows}
            deviation = _find_deviation(answer)
            if deviation is not None:
                norm |= deviation
            described.setdefault("norm", {})[answer.recall] = norm
        described.setdefault("coverage", {})[answer.recall] = {
            "read": answer.coverage.get("read"),
            "pieces": answer.coverage.get("pieces"),
            "final": answer.final,
        }
    return described


def _list_hits(answer: AnswerOfEventRow) -> Sequence[Mapping[str, Any]]:
    if answer.kind != "similar":
        return ()
    return (answer.answer or ())[:_MAX_HITS]


def _describe_hit(hit: Mapping[str, Any], fixes: Mapping[UUID, FixRow]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "event": hit["past_eid"],
        "score": hit.get("score"),
        "at": format_time(from_micros(hit["past_ts"])),
        "reasons": explain_similarity(
            hit.get("shared", ()), hit.get("only_new", ()), hit.get("only_past", ())
        ),
    }
    fix = fixes.get(UUID(hit["past_eid"]))
    if fix is not None:
        described["alert"] = str(fix.alert)
        if fix.summary:
            described["summary"] = fix.summary[:_MAX_TEXT]
        if fix.ends_at is not None:
            described["lasted_seconds"] = (fix.ends_at - fix.starts_at).total_seconds()
        if fix.resolution is not None:
            described["resolution"] = fix.resolution[:_MAX_TEXT]
            described["tag"] = fix.tag
            described["by"] = fix.author
            if fix.effect is not None:
                described["effect"] = fix.effect
    return described


def _find_deviation(answer: AnswerOfEventRow) -> dict[str, Any] | None:
    """Whether a value is normal: by the verdict of a norm; else how far the only number of an event
    is from a mean, in standard deviations.
    """
    rows = answer.answer or ()
    if len(rows) == 1 and {"verdict", "says"} <= rows[0].keys():
        verdict = rows[0]["verdict"]
        normal = verdict == "usual" if verdict in _JUDGED else None
        return {"verdict": verdict, "normal": normal, "says": rows[0]["says"]}
    numbers = {
        name: value
        for name, value in answer.attributes.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if len(numbers) != 1 or len(rows) != 1:
        return None
    ((name, value),) = numbers.items()
    row = {column.lower(): cell for column, cell in rows[0].items()}
    mean, spread = row.get("mean"), row.get("sd", row.get("stddev"))
    if not isinstance(mean, int | float) or not isinstance(spread, int | float) or spread <= 0:
        return None
    deviations = (value - mean) / spread
    return {
        "value": {name: value},
        "deviations": round(deviations, 2),
        "normal": abs(deviations) <= 3,
    }


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, Mapping):
        return {name: _shorten(cell) for name, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_shorten(cell) for cell in value]
    return value
