"""The tools of agents, as functions of a workspace. Each is made of operations."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from uuid import UUID

from moirae.alerts import Outcome
from moirae.errors import MoiraeError, UsageError
from moirae.mcp.alerts import (
    describe_alert,
    describe_fix,
    describe_report,
    list_described_parts,
    list_report_parts,
    list_similar_parts,
)
from moirae.mcp.pages import Part, make_page
from moirae.services import Workspace
from moirae.services.operations import (
    alerts,
    backtests,
    events,
    queries,
    recalls,
    recent_changes,
    rules,
    silences,
    similarity,
)

_LISTED_ALERTS = 20
_FIXED_ALERTS = 200  # of a rule, whose fixes are listed
_POLL_INTERVAL = 0.3  # seconds
_MAX_WAIT = 60.0  # seconds of one call
_OPEN_STATES = ("waiting", "running", "suspended")

Page = dict[str, Any]


def list_alerts(
    workspace: Workspace,
    text: str | None = None,
    rule: str | None = None,
    active: bool = False,
    since: str | None = None,
    until: str | None = None,
    cursor: str | None = None,
) -> Page:
    """List or search alerts, newest first. `active`: those that fire now. `text` searches in rule,
    key, labels, annotations and notes. `since`, `until`: times in ISO 8601. `cursor`: `next` of the
    previous answer.
    """
    values = {"text": text, "rule": rule, "since": since, "until": until, "cursor": cursor}
    given = {name: value for name, value in values.items() if value is not None}
    arguments = given | {"active": active}
    query = alerts.AlertQuery.model_validate(arguments | {"limit": _LISTED_ALERTS})
    listed = alerts.list_alerts(workspace, query)
    page = make_page({}, [Part("alerts", describe_alert(alert)) for alert in listed.alerts])
    following = listed.next
    if page["next"] is not None:  # fewer fit than were read
        shorter = query.model_copy(update={"limit": int(page["next"])})
        following = alerts.list_alerts(workspace, shorter).next
    return {"alerts": [], **page, "next": following}


def get_alert(workspace: Workspace, alert: str, cursor: str | None = None) -> Page:
    """Show an alert: whether its values are normal here, the most similar past alerts with what
    fixed them and what was checked then, the probable resolution, its context, and notes. `alert`:
    ID of the alert or its event, or a unique prefix. Coverage says how much of the history was
    read.
    """
    report = alerts.show_report(workspace, alert)
    return make_page(describe_report(report), list(list_report_parts(report)), cursor)


def find_similar(workspace: Workspace, alert: str, cursor: str | None = None) -> Page:
    """Find the past alerts that are most similar to an alert, each with the context terms that both
    share, what fixed it, and what was checked then. `alert`: ID of the alert or its event.
    """
    answers = events.show_similar(workspace, alert)
    return make_page({"alert": alert}, list(list_similar_parts(answers)), cursor)


def find_similar_state(
    workspace: Workspace,
    alert: str | None = None,
    rule: str | None = None,
    terms: list[str] | None = None,
    cursor: str | None = None,
) -> Page:
    """Find the past alerts that are most similar to an alert, or to a state that you describe, each
    with the context terms that both share, what fixed it, and what was checked then. Either `alert`:
    ID of the alert or its event; or `rule` and `terms`: what is the case, as `attribute=value` with
    the attributes of the rule's contexts (`get_alert` shows them).
    """
    if (alert is None) == (rule is None) or (rule is None) != (not terms):
        raise UsageError("write either `alert`, or `rule` and `terms`")
    if alert is not None:
        return find_similar(workspace, alert, cursor)
    body = similarity.DescribedState.model_validate({"rule": rule, "terms": terms})
    answers = similarity.compare_described(workspace, body)
    parts = [part for answer in answers for part in list_described_parts(answer)]
    return make_page({"rule": rule, "terms": terms}, parts, cursor)


def why(workspace: Workspace, alert: str, cursor: str | None = None) -> Page:
    """Explain why an alert fired: its rule stage by stage over the rows that it read. `alert`: ID of
    the alert or its event. It takes up to a minute.
    """
    explained = backtests.explain_alert(workspace, alert, backtests.WhyQuery(at=None))
    parts = [Part("explanation", {name: value}) for name, value in explained.items()]
    return make_page({"alert": alert}, parts, cursor)


def what_changed(
    workspace: Workspace, alert: str, within: str = "6h", cursor: str | None = None
) -> Page:
    """What changed near an alert in time and place: deployments, configuration and the like, first
    those that came before alerts of this rule more often than before other hours. This is no
    statement of cause. `alert`: ID of the alert or its event. `within`: how long before.
    """
    query = recent_changes.ChangesQuery.model_validate({"within": within})
    recent = recent_changes.list_changes(workspace, alert, query)
    parts = [Part("changes", asdict(change)) for change in recent.changes]
    parts += [Part("unread", asdict(entry)) for entry in recent.unread]
    return make_page({"alert": alert, "streams": list(recent.streams)}, parts, cursor)


def list_fixes(workspace: Workspace, rule: str, cursor: str | None = None) -> Page:
    """What fixed the past alerts of a rule and what was checked then, newest first: the material of
    a runbook.
    """
    query = alerts.AlertQuery.model_validate({"rule": rule, "limit": _FIXED_ALERTS})
    listed = alerts.list_alerts(workspace, query).alerts
    parts = []
    for alert in listed:
        if alert.resolution is not None or alert.tag is not None:
            notes = alerts.show_report(workspace, str(alert.id)).alert.notes
            parts.append(Part("fixes", describe_fix(alert, notes)))
    head = {"rule": rule, "alerts": len(listed)}
    runbooks = {alert.annotations.get("runbook_url", "") for alert in listed} - {""}
    if runbooks:
        head["runbook_urls"] = sorted(runbooks)
    return make_page(head, parts, cursor)


def ask_history(
    workspace: Workspace,
    sql: str | None = None,
    query: str | None = None,
    since: str | None = None,
    limit: int = 50,
    wait: float = 15.0,
    cursor: str | None = None,
) -> Page:
    """Ask a question about the history in SQL (Spark's dialect, one SELECT over streams, relations
    and derived streams). It is read newest first: an answer whose `final` is false covers a part of
    the history, as `coverage` says; call again with `query` for the rest. `since`: how far back,
    such as `7d`. `limit`: rows. `wait`: seconds. `cursor`: `next` of the previous answer, with its
    `query`, for further rows.
    """
    if (sql is None) == (query is None):
        raise MoiraeError("write either `sql`, or `query` of the previous answer")
    if sql is not None:
        arguments: dict[str, Any] = {"sql": sql, "limit": limit}
        if since is not None:
            arguments["since"] = since
        started = queries.start(workspace, queries.QueryBody.model_validate(arguments))
        query = str(started.id)
    assert query is not None
    deadline = time.monotonic() + min(wait, _MAX_WAIT)
    task = queries.keep_alive(workspace, _parse_id(query))
    while task.state in _OPEN_STATES and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        task = queries.keep_alive(workspace, task.id)
    head: dict[str, Any] = {
        "query": task.id,
        "state": task.state,
        "final": False,
        "coverage": None,
        "error": task.error,
    }
    rows: list[Any] = []
    if task.revision:
        selection = recalls.RevisionQuery(after=task.revision - 1, limit=1)
        for revision in recalls.list_revisions(workspace, query, selection):
            rows = list(revision.rows or [])
            head |= {"final": revision.final, "coverage": revision.coverage}
            if revision.estimates:
                head["estimates"] = revision.estimates
    return {"rows": [], **make_page(head, [Part("rows", row) for row in rows], cursor)}


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise MoiraeError("query: write `query` of the previous answer") from None


def explain_rule(workspace: Workspace, rule: str, cursor: str | None = None) -> Page:
    """Explain a rule: its SQL, contexts, recalls, and how each is evaluated. `rule`: its name, with
    or without its group.
    """
    shown = rules.show_rule(workspace, rule)
    explained = rules.explain(workspace, rule)
    parts = [Part("explanation", {name: value}) for name, value in explained.items()]
    return make_page({"rule": rule, "definition": vars(shown)}, parts, cursor)


def acknowledge(workspace: Workspace, alert: str, text: str = "") -> Page:
    """Acknowledge an alert: somebody works on it."""
    return _added(alerts.acknowledge(workspace, alert, alerts.Comment(text=text)))


def note(workspace: Workspace, alert: str, text: str) -> Page:
    """Add a note to an alert."""
    return _added(alerts.annotate(workspace, alert, alerts.NoteBody(text=text)))


def checked(
    workspace: Workspace, alert: str, step: str, result: str = "", outcome: Outcome = "open"
) -> Page:
    """Record a step that you checked to find the cause of an alert: a query or command, what it
    showed, and whether it ruled the suspicion out or confirmed it. Similar alerts in the future
    show it.
    """
    body = alerts.CheckedStep(step=step, result=result, outcome=outcome)
    return _added(alerts.check_step(workspace, alert, body))


def resolve(workspace: Workspace, alert: str, text: str, tag: str | None = None) -> Page:
    """Propose how an alert was resolved. `tag`: the remedy in one word, such as `restart`; take one
    that past alerts have where it fits. It counts when a person confirms it.
    """
    body = alerts.ResolutionBody.model_validate({"text": text, "tag": tag})
    return _added(alerts.propose(workspace, alert, body))


def silence(workspace: Workspace, matchers: list[str], comment: str, duration: str = "1h") -> Page:
    """Hold back the notifications of alerts whose labels match, from now on. `matchers`: such as
    `host="a"`, all must hold. `duration`: such as `1h`; the server has a limit. `comment`: why.
    """
    body = silences.AgentSilenceBody.model_validate(
        {"matchers": matchers, "duration": duration, "comment": comment}
    )
    return make_page({"silence": vars(silences.add_agent_silence(workspace, body))}, [])


def _added(added: alerts.AddedNote) -> Page:
    return make_page({"added": vars(added)}, [])


Tool = Callable[..., Page]

READING: dict[str, Tool] = {
    tool.__name__: tool
    for tool in (list_alerts, get_alert, find_similar, what_changed, list_fixes, explain_rule)
}
"""What a viewer may do."""
ASKING: dict[str, Tool] = {
    "find_similar": find_similar_state,
    "ask_history": ask_history,
    "why": why,
}
"""What needs an operator, as `moirae query` does, or a viewer whose token allows queries."""
WRITING: dict[str, Tool] = {
    tool.__name__: tool for tool in (acknowledge, note, checked, resolve, silence)
}
"""What needs an operator, and a server that was started with writes allowed."""
