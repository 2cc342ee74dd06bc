"""Titles and texts of messages: built-in ones, and templates of receivers.

Values are escaped for their channel before a template gets them; a template is rendered once. No I/O.
"""

import html
import re
from collections.abc import Callable, Mapping
from typing import Any

from moirae.config import Receiver
from moirae.errors import TemplateFault
from moirae.notify.messages.content import find_common
from moirae.notify.messages.forecast import format_forecast, format_match
from moirae.rules import render

Escape = Callable[[str], str]

TITLE = (
    "[{{ status | upper }}{% if firing %}:{{ firing }}{% endif %}] {{ name }}"
    "{% if where %} {{ where }}{% endif %}{% if late %} (late){% endif %}"
    "{% if restored %} (restored){% endif %}"
)
_MAX_ALERTS = 10  # that a text names; the others are counted
_MAX_VALUE = 1_000  # characters of a label, an annotation or a line of history in a text
_MAX_TITLE = 200  # characters
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_MENTION = re.compile(r"@(?=everyone|here|channel|all\b)|(?<=<)(?=[@!#])", re.IGNORECASE)
_HIDDEN_LABELS = frozenset({"alertname", "severity"})
_REASONS = {"no_data": "its data vanished", "withdrawn": "withdrawn"}
_WITHDRAWALS = {
    "history": "withdrawn: its history does not confirm it",
    "settling": "withdrawn: rows that came late do not confirm it",
}


def keep(text: str) -> str:
    """No escaping, for plain text."""
    return text


def escape_html(text: str) -> str:
    """For HTML, also in attributes."""
    return html.escape(text, quote=True)


def escape_slack(text: str) -> str:
    """For Slack's mrkdwn: neither mentions nor links come from values."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_mentions(text: str) -> str:
    """For chats without an escape: values call nobody, by a space of no width."""
    return _MENTION.sub(lambda match: f"{match[0]}\u200b", text)


def to_line(text: str, limit: int = _MAX_TITLE) -> str:
    """A text in one line, for headers and titles."""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def make_variables(content: Mapping[str, Any], escape: Escape = keep) -> dict[str, Any]:
    """What templates of titles and texts may use. Alerts that fire come first."""
    ordered = sorted(content["alerts"], key=_find_order)
    labels = find_common([alert["labels"] for alert in ordered])
    alerts = [_describe_alert(alert, escape, content, labels) for alert in ordered]
    common = _escape_texts(labels, escape)
    firing = [alert["labels"] for alert in ordered if alert["status"] == "firing"]
    name = common.get("alertname") or ", ".join(
        sorted({alert["labels"].get("alertname", "") for alert in alerts})[:3]
    )
    common_firing = _escape_texts(find_common(firing) or labels, escape)
    where = " ".join(
        common_firing[label] for label in sorted(common_firing) if label not in _HIDDEN_LABELS
    )
    variables = {
        "status": content["status"],
        "receiver": content["receiver"],
        "cause": content["cause"],
        "firing": len(firing),
        "resolved": len(alerts) - len(firing),
        "name": name,
        "where": where,
        "labels": common,
        "group": _escape_texts(content["groupLabels"], escape),
        "alerts": alerts[:_MAX_ALERTS],
        "more": max(0, len(alerts) - _MAX_ALERTS),
        "late": any(alert["moirae"].get("late") for alert in content["alerts"]),
        "restored": any(alert["moirae"].get("restored") for alert in content["alerts"]),
        "link": find_link(content),
    }
    if alerts and _counts_others(ordered[0]):
        counts = ordered[0]["moirae"]["summary"]
        variables |= {"firing": counts["firing"], "resolved": counts["resolved"], "late": False}
        variables |= {"name": alerts[0]["heading"], "where": ""}
    return variables


def find_link(content: Mapping[str, Any]) -> str:
    """The page of the only alert, or of the list of those that a summary counts; else of all."""
    first: Mapping[str, Any] = content["alerts"][0]
    if len(content["alerts"]) == 1 or _counts_others(first):
        return str(first["moirae"]["link"])
    return str(content["externalURL"])


def _counts_others(alert: Mapping[str, Any]) -> bool:
    """Whether it stands for alerts that are not sent one by one."""
    return "summary" in alert["moirae"]


def _find_order(alert: Mapping[str, Any]) -> tuple[bool, bool]:
    """What counts others first, then alerts that fire."""
    return not _counts_others(alert), alert["status"] != "firing"


def _describe_alert(
    alert: Mapping[str, Any],
    escape: Escape,
    content: Mapping[str, Any],
    common: Mapping[str, str],
) -> dict[str, Any]:
    """`common`: the labels of all alerts of the message."""
    heading = lead = _make_heading(alert)
    annotations = dict(alert["annotations"])
    annotations.pop("runbook_url", None)
    if "alertname" in common and annotations.get("summary") and not _counts_others(alert):
        summary = annotations.pop("summary")[:_MAX_VALUE]
        # The title names the alert, and the state of the only one.
        is_told = len(content["alerts"]) == 1 and "reason" not in alert["moirae"]
        lead = summary if is_told else _make_line(alert, summary)
    texts = [text[:_MAX_VALUE] for text in annotations.values() if text != heading]
    # Of those that ended, history is told with their end, not beside alerts that fire.
    is_past = alert["status"] != content["status"]
    history = [] if is_past else describe_history(alert["moirae"])
    return {
        "heading": escape(heading),
        "lead": escape(lead),
        "texts": list(map(escape, texts)),
        "period": _format_period(alert),
        "status": alert["status"],
        "labels": _escape_texts(alert["labels"], escape),
        "annotations": _escape_texts(alert["annotations"], escape),
        "starts_at": alert["startsAt"],
        "ends_at": alert["endsAt"],
        "link": alert["moirae"]["link"],
        "reason": alert["moirae"].get("reason", ""),
        "history": list(map(escape, history)),
        # Addresses that were made here; nothing in them comes from values.
        "actions": alert["moirae"].get("actions", ()),
        "moirae": _escape_all(alert["moirae"], escape),
    }


def _make_heading(alert: Mapping[str, Any]) -> str:
    """The first line about an alert; of one that counts others, how many."""
    if _counts_others(alert):
        return str(alert["annotations"]["summary"])
    return _make_line(alert, alert["labels"].get("alertname", "")[:_MAX_VALUE])


def _make_line(alert: Mapping[str, Any], text: str) -> str:
    """The state of an alert, a text about it, and the reason of its end."""
    details = alert["moirae"]
    withdrawal = _WITHDRAWALS.get(details.get("withdrawn_by", ""))
    reason = withdrawal or _REASONS.get(details.get("reason", ""))
    return f"{alert['status']}: {text}" + (f" ({reason})" if reason else "")


def _format_period(alert: Mapping[str, Any]) -> str:
    """When an alert began, and when it ended if it has."""
    if alert["status"] == "firing":
        return f"since {_format_time(alert['startsAt'])}"
    return f"from {_format_time(alert['startsAt'])} to {_format_time(alert['endsAt'])}"


def _format_time(text: str) -> str:
    """A time for people, in seconds."""
    return re.sub(r"\.\d+(?=Z$)", "", text).replace("T", " ", 1)


def _escape_texts(texts: Mapping[str, str], escape: Escape) -> dict[str, str]:
    """Labels or annotations. Names are escaped, too: those of external alerts are any text."""
    return {escape(name[:_MAX_VALUE]): escape(value[:_MAX_VALUE]) for name, value in texts.items()}


def _escape_all(value: Any, escape: Escape) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {escape(str(name)): _escape_all(cell, escape) for name, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_all(cell, escape) for cell in value]
    return value


def describe_history(moirae: Mapping[str, Any]) -> list[str]:
    """What history says of an alert, in lines."""
    lines = [_describe_norm(recall, norm) for recall, norm in moirae.get("norm", {}).items()]
    lines += format_forecast(moirae)
    similar = enumerate(moirae.get("similar", ()), 1)
    lines += [_describe_similar(number, hit) for number, hit in similar]
    lines += format_match(moirae.get("match"))
    incomplete = [name for name, c in moirae.get("coverage", {}).items() if not c["final"]]
    if incomplete:
        lines.append(f"history still being read: {', '.join(incomplete)}")
    return [to_line(line, _MAX_VALUE) for line in lines]


def _describe_norm(recall: str, norm: Mapping[str, Any]) -> str:
    """The rows of a recall; first whether a value is normal, if that is known."""
    rows = norm["rows"]
    if "says" in norm:
        normal = norm["normal"]
        verdict = norm["verdict"] if normal is None else "normal" if normal else "not normal"
        prefix = "" if norm["says"].startswith(verdict) else f"{verdict}: "
        return f"{prefix}{norm['says']} ({recall})"
    if "deviations" not in norm:
        return f"{recall}: {'; '.join(map(_describe_row, rows)) or 'no rows'}"
    ((name, value),) = norm["value"].items()
    figures = {column.lower(): cell for column, cell in rows[0].items()}
    mean = figures.pop("mean")
    verdict = "normal" if norm["normal"] else "not normal"
    side = "above" if norm["deviations"] >= 0 else "below"
    return (
        f"{verdict}: {name} {_format_value(value)} is {abs(norm['deviations']):g} standard "
        f"deviations {side} the mean {_format_value(mean)} ({recall}: {_describe_row(figures)})"
    )


def _describe_similar(number: int, hit: Mapping[str, Any]) -> str:
    """A past alert, and what fixed it."""
    line = f"similar {number}: {_format_time(hit['at'])}"
    if hit.get("summary"):
        line += f" {hit['summary'][:_MAX_TITLE]}"
    if hit.get("resolution"):
        line += f", {hit.get('effect', 'fixed by')}: {hit['resolution']}"
        if hit.get("tag"):
            line += f" [{hit['tag']}]"
    reasons = " ".join(hit.get("reasons", ()))
    return f"{line} · {reasons}" if reasons else line


def _describe_row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_format_value(value)}" for name, value in row.items())


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def render_title(receiver: Receiver, content: Mapping[str, Any]) -> str:
    """The title of a message in one line, without escapes."""
    variables = make_variables(content)
    return to_line(_render(receiver.title or TITLE, TITLE, variables))


def render_body(
    receiver: Receiver,
    content: Mapping[str, Any],
    escape: Escape = keep,
    format_alert: Callable[[Mapping[str, Any]], str] | None = None,
) -> str:
    """The text of a message. `format_alert`: of the built-in text; None: plain lines."""
    variables = make_variables(content, escape)
    if receiver.body is not None:
        return _render(receiver.body, "", variables)
    texts = [(format_alert or format_plain)(alert) for alert in variables["alerts"]]
    if variables["more"]:
        texts.append(f"and {variables['more']} more: {escape(content['externalURL'])}")
    return "\n\n".join(texts)


def _render(template: str, fallback: str, variables: Mapping[str, Any]) -> str:
    """A template that fails is said in the message: the alert reaches its receiver anyway."""
    try:
        return render(template, variables)
    except TemplateFault as fault:
        text = render(fallback, variables) if fallback else ""
        names = ", ".join(str(alert["labels"].get("alertname")) for alert in variables["alerts"])
        return f"{text or names} (template failed: {fault})"


def format_plain(alert: Mapping[str, Any]) -> str:
    """An alert in lines of plain text."""
    labels = ", ".join(f"{name}={value}" for name, value in sorted(alert["labels"].items()))
    lines = [alert["lead"], *alert["texts"]]
    if "runbook_url" in alert["annotations"]:
        lines.append(f"runbook: {alert['annotations']['runbook_url']}")
    lines += [labels, alert["period"], *alert["history"], alert["link"]]
    lines += [f"{action['label']}: {action['link']}" for action in alert["actions"]]
    return "\n".join(lines)
