"""Alerts as Prometheus posts them to Alertmanager, a JSON list of labels, times and annotations, or as
Alertmanager notifies a webhook of them, an object with such a list.

Valid alerts of a post are accepted when others are not, as by Alertmanager.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson

from moirae.errors import RequestRejected

MAX_ALERTS = 10_000  # of a post
_MAX_LABELS = 200
_MAX_NAME = 256  # characters of the name of a label or annotation
_MAX_ALERT_BYTES = 64 << 10  # labels and annotations, as JSON
_MAX_ERROR_LENGTH = 200  # characters
_MAX_ERRORS = 10  # that are named
_NOTIFIED_FOR = timedelta(days=1)
"""For which an alert fires after a notification, which names no end until the alert is resolved, and
is repeated each `repeat_interval` of Alertmanager (4 hours by default)."""


class AlertRows(NamedTuple):
    """The rows of the valid alerts of a post as JSON lines, and why the others are refused."""

    lines: bytes
    errors: list[str]


def convert_alerts(body: bytes, now: datetime) -> AlertRows:
    """The rows of a post received at `now`. Raises `RequestRejected` if it is no list of alerts."""
    try:
        alerts = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = str(error)[:_MAX_ERROR_LENGTH]
        raise RequestRejected(400, f"the body is not valid JSON: {message}") from None
    is_notification = isinstance(alerts, dict) and "alerts" in alerts
    if is_notification:
        alerts = alerts["alerts"]
    if not isinstance(alerts, list):
        raise RequestRejected(400, "the body must be a list of alerts, or an object with `alerts`")
    if len(alerts) > MAX_ALERTS:
        raise RequestRejected(413, f"too many alerts: limit {MAX_ALERTS} per post")
    lines: list[bytes] = []
    errors: list[str] = []
    for number, alert in enumerate(alerts):
        try:
            row = _convert(_date_notified(alert, now) if is_notification else alert, now)
            lines.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        except RequestRejected as error:
            if len(errors) < _MAX_ERRORS:
                errors.append(f"alert {number}: {error}")
    return AlertRows(b"".join(lines), errors)


def _date_notified(alert: Any, now: datetime) -> Any:
    """An alert of a notification with the end that its status means. Raises `RequestRejected`."""
    if not isinstance(alert, dict):
        return alert
    match alert.get("status"):
        case "firing":
            return {**alert, "endsAt": _write_time(now + _NOTIFIED_FOR)}
        case "resolved":
            return alert if _read_time(alert, "endsAt") else {**alert, "endsAt": _write_time(now)}
        case _:
            raise RequestRejected(400, "status must be firing or resolved")


def _convert(alert: Any, now: datetime) -> dict[str, Any]:
    if not isinstance(alert, dict):
        raise RequestRejected(400, "must be an object")
    labels = _read_texts(alert, "labels")
    labels = {name: value for name, value in labels.items() if value}
    if not labels:
        raise RequestRejected(400, "at least one label with a value is required")
    annotations = _read_texts(alert, "annotations")
    starts_at, ends_at = _read_time(alert, "startsAt"), _read_time(alert, "endsAt")
    if starts_at is None:
        starts_at = now if ends_at is None else min(now, ends_at)
    if ends_at is not None and ends_at < starts_at:
        raise RequestRejected(400, "startsAt must not be after endsAt")
    generator_url = alert.get("generatorURL")
    if not isinstance(generator_url, str | None):
        raise RequestRejected(400, "generatorURL must be text")
    values = {
        "alertname": labels.get("alertname", ""),
        "labels": _write_texts(labels),
        "starts_at": _write_time(starts_at),
        "ends_at": None if ends_at is None else _write_time(ends_at),
        "annotations": _write_texts(annotations),
        "generator_url": generator_url or "",
    }
    content = orjson.dumps(values)
    if len(content) > 2 * _MAX_ALERT_BYTES:  # labels and annotations are quoted again
        raise RequestRejected(400, f"too large: limit {_MAX_ALERT_BYTES} bytes")
    digest = hashlib.sha256(content).hexdigest()[:32]
    return {"ts": _write_time(now), **values, "digest": digest}


def _read_texts(alert: Mapping[str, Any], field: str) -> dict[str, str]:
    """Labels or annotations. Raises `RequestRejected`."""
    texts = alert.get(field)
    if texts is None:
        return {}
    if not isinstance(texts, dict):
        raise RequestRejected(400, f"{field} must be an object")
    if len(texts) > _MAX_LABELS:
        raise RequestRejected(400, f"too many {field}: limit {_MAX_LABELS}")
    for name, value in texts.items():
        if not isinstance(value, str):
            raise RequestRejected(400, f"{field}.{name[:_MAX_NAME]} must be text")
        if not name or len(name) > _MAX_NAME:
            raise RequestRejected(400, f"names of {field} must have 1 to {_MAX_NAME} characters")
        if "\0" in name or "\0" in value:
            raise RequestRejected(400, f"{field} must not contain NUL characters")
    return texts


def _read_time(alert: Mapping[str, Any], field: str) -> datetime | None:
    """A time in RFC 3339; None if it is absent or Go's zero time. Raises `RequestRejected`."""
    text = alert.get(field)
    if text is None or text == "":
        return None
    try:
        if not isinstance(text, str) or "T" not in text.upper():
            raise ValueError
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        shown = str(text)[:50]
        raise RequestRejected(
            400, f"{field}: {shown!r} is no time such as 2026-01-31T12:00:00Z"
        ) from None
    return None if moment.year <= 1 else moment


def _write_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _write_texts(texts: Mapping[str, str]) -> str:
    return orjson.dumps(dict(sorted(texts.items()))).decode()
