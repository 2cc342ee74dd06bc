"""Explains why a rule has an alert of a key at a time, or has none."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from archiver.time_range import TimeRange
from archiver.times import Micros, from_micros, optional_datetime, to_micros
from moirae.alerts import (
    Event,
    FoldedAlert,
    evaluate_in_order,
    find_spans,
    fold_alerts,
    make_alerting_rule,
)
from moirae.backtest import BacktestArchive
from moirae.config import Settings, format_duration
from moirae.errors import UsageError
from moirae.evaluation.plan import ActiveRule
from moirae.notify import Silence, make_alert_labels, make_policy
from moirae.notify.routing.tree import find_routes
from moirae.rules.requests import build_questions, find_recalls_in_where, where_needs_alerts
from moirae.why.alerts_at import KeyEvents, find_open_alert, has_key
from moirae.why.conditions import list_conditions
from moirae.why.evaluation import KeySlice
from moirae.why.explanation import Explanation, RouteReport, WhereReport
from recall.norms import AlertSpan

_MAX_EVENTS = 5  # newest events that are shown
_MAX_ROWS = 5  # of an answer that are shown


def explain_alert(
    rule: ActiveRule, archive: BacktestArchive, key: Mapping[str, str], at: Micros
) -> Explanation:
    """Raises `UsageError` if the key is not complete, or the time is not settled."""
    _check(rule, archive, key, at)
    state = find_open_alert(rule, archive, key, at)
    events = TimeRange(at - rule.keep_firing_for, at + 1)
    key_slice = KeySlice(rule, archive, key, events)
    assert key_slice.input.start is not None and key_slice.input.end is not None
    explanation = Explanation(
        rule=rule.name,
        version=rule.version,
        key=dict(key),
        at=from_micros(at),
        verdict="none",
        reason="",
        reads_from=from_micros(key_slice.input.start),
        reads_to=from_micros(key_slice.input.end - 1),
        streams=key_slice.describe_streams(),
        stages=[] if rule.is_absence else key_slice.describe_stages(),
        relations=key_slice.describe_relations(),
        events=[_describe_event(event) for event in state.events[-_MAX_EVENTS:]],
    )
    if state.alert is not None:
        return _explain_open(rule, archive, state, explanation)
    if rule.is_absence:
        return replace(explanation, reason=_explain_presence(rule, explanation))
    return _explain_missing(key_slice, explanation)


def _check(rule: ActiveRule, archive: BacktestArchive, key: Mapping[str, str], at: Micros) -> None:
    names = rule.definition.key
    if set(key) != set(names):
        expected = ", ".join(names) or "none: the rule has a single alert"
        raise UsageError(f"--key: give a value for each column of the key: {expected}")
    if rule.reads_revisions:
        raise UsageError(f"{rule.name} reads streams of recalls or stages, which have no past")
    horizon = rule.shape.horizon(archive.watermarks)
    if horizon is None or not rule.shape.streams <= archive.newest.keys():
        raise UsageError(
            f"{rule.name}: nothing is archived and settled of the streams that it reads"
        )
    if at >= horizon:
        raise UsageError(f"--at: the rule is settled up to {_format_time(horizon - 1)} only")


def _explain_open(
    rule: ActiveRule, archive: BacktestArchive, state: KeyEvents, explanation: Explanation
) -> Explanation:
    alert = state.alert
    assert alert is not None
    lifetime = alert.lifetime
    explanation = replace(
        explanation,
        starts_at=from_micros(lifetime.starts),
        fired_at=optional_datetime(lifetime.fired),
        labels=make_alert_labels(make_alerting_rule(rule.definition).labels, alert.first_event.key),
    )
    if lifetime.fired is None:
        elapsed = from_micros(lifetime.last) - from_micros(lifetime.starts)
        wait = format_duration(rule.spec.for_)
        reason = f"events have continued for {format_duration(elapsed)}; `for` is {wait}"
        return replace(explanation, verdict="pending", reason=reason, deciding=[f"for: {wait}"])
    where = _evaluate_where(rule, archive, alert, explanation.key)
    if where is not None and where.verdict is False:
        return replace(
            explanation,
            verdict="hidden",
            where=where,
            reason="`where` is false over the answers of its recalls",
            deciding=[f"where: {where.condition}"],
        )
    reason = (
        f"it fires since {_format_time(lifetime.fired)}; "
        f"its newest event is at {_format_time(lifetime.last)}"
    )
    return replace(explanation, verdict="firing", where=where, reason=reason)


def _evaluate_where(
    rule: ActiveRule, archive: BacktestArchive, alert: FoldedAlert, key: Mapping[str, str]
) -> WhereReport | None:
    if rule.spec.where is None or rule.recalls_every_event:
        return None
    event = alert.first_event
    finder = archive.finder
    names = sorted(find_recalls_in_where(rule.definition))
    spans: dict[UUID, tuple[AlertSpan, ...]] = {}
    if where_needs_alerts(rule.definition, rule.tables):
        spans[event.eid] = _find_earlier_spans(rule, archive, key, event.ts)
    answers = finder.answer_recalls(rule, [event], names, alerts=spans).get(event.eid, {})
    rows = {name: list(answers.get(name, ()))[:_MAX_ROWS] for name in names}
    verdict = finder.evaluate_conditions(rule, [event], spans)[event.eid]
    return WhereReport(rule.spec.where, verdict, rows)


def _find_earlier_spans(
    rule: ActiveRule, archive: BacktestArchive, key: Mapping[str, str], before: Micros
) -> tuple[AlertSpan, ...]:
    """Those of the alerts of a key that `where` has not hidden, as far as its norms look back."""
    questions = build_questions(rule.definition, rule.tables)
    reach = max(questions[name].range or 0 for name in find_recalls_in_where(rule.definition))
    events = archive.finder.find_tried_events(rule, TimeRange(before - reach, before))
    alerts = fold_alerts(
        (event for event in events if has_key(event, key)),
        make_alerting_rule(rule.definition).timing,
        before,
    )
    fired = [
        (each.first_event, each.lifetime) for each in alerts if each.lifetime.fired is not None
    ]
    verdicts = evaluate_in_order(fired, partial(archive.finder.evaluate_conditions, rule))
    shown = [lifetime for event, lifetime in fired if verdicts[event.eid] is not False]
    return find_spans(shown, before)


def _explain_presence(rule: ActiveRule, explanation: Explanation) -> str:
    """Why a rule of absence has no event."""
    assert rule.spec.absent is not None
    absent = format_duration(rule.spec.absent)
    newest = explanation.streams[0].newest
    if newest is None:
        return f"no row of this key in the {absent} before, or ever: absence counts from the last row on"
    return f"a row of this key came at {_format_time(to_micros(newest))}; `absent` is {absent}"


def _explain_missing(key_slice: KeySlice, explanation: Explanation) -> Explanation:
    positions = key_slice.find_deciding()
    conditions = list_conditions(key_slice.query)
    deciding = [conditions[position].text for position in positions]
    if not deciding:
        return replace(explanation, reason=_explain_no_rows(explanation))
    noun = "this condition is" if len(deciding) == 1 else "these conditions are"
    reason = f"no event in the {_format_span(key_slice)} before: {noun} false"
    return replace(explanation, reason=reason, deciding=deciding)


def _explain_no_rows(explanation: Explanation) -> str:
    empty = [stream.stream for stream in explanation.streams if not stream.rows]
    if empty:
        return f"there are no rows of {', '.join(empty)} to read"
    return "no row of this key is left after FROM and JOIN at a time that gives an event here"


def _format_time(micros: Micros) -> str:
    return from_micros(micros).replace(tzinfo=None).isoformat(sep=" ") + "Z"


def _format_span(key_slice: KeySlice) -> str:
    return format_duration(key_slice.rule.spec.keep_firing_for)


def _describe_event(event: Event) -> dict[str, Any]:
    return {"ts": from_micros(event.ts), **event.attributes}


def add_routes(
    explanation: Explanation, settings: Settings, silences: Mapping[str, Silence], at: datetime
) -> Explanation:
    """The routes that the alert takes, and the silences (by ID) that held it back at the time."""
    if not explanation.labels:
        return explanation
    routes = [
        RouteReport(node.options.receiver, node.key, node.is_muted(at))
        for node in find_routes(make_policy(settings).root, explanation.labels)
    ]
    muting = [name for name, item in silences.items() if item.mutes(explanation.labels, at)]
    return replace(explanation, routes=routes, silences=muting)
