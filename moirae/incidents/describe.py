"""Says why an alert is in an incident. No I/O."""

from collections.abc import Sequence
from datetime import timedelta

from archiver.times import Micros
from moirae.alerts import format_span
from moirae.incidents.alert_features import Kind
from moirae.incidents.decisions import Decision

_SHOWN = 3  # features
_MAX_FEATURE = 80  # characters
_NOUNS: dict[Kind, tuple[str, str]] = {
    "context": ("term of the context", "terms of the context"),
    "place": ("place", "places"),
    "change": ("change before it", "changes before it"),
}


def describe_overlap(after: Micros, kind: Kind, shared: Sequence[str], overlap: float) -> str:
    """`2 min after the alert before it; 5 terms of the context in common, such as a=1, … (overlap 0.62)`.

    `after`: from the newest alert of the incident. `shared`: features, the weightiest first.
    """
    span = format_span(timedelta(microseconds=abs(after)))
    order = "after the alert before it" if after >= 0 else "before the newest alert"
    noun = _NOUNS[kind][len(shared) != 1]
    names = ", ".join(map(_shorten, shared[:_SHOWN]))
    such_as = ", such as" if len(shared) > _SHOWN else ":"
    return (
        f"{span} {order}; {len(shared)} {noun} in common{such_as} {names} (overlap {overlap:.2f})"
    )


def describe_decision(decision: Decision) -> str:
    """Why an alert follows a decision of a person."""
    return f"{decision.author} merged alerts of these rules and keys on {decision.at:%Y-%m-%d}"


def describe_unread(streams: Sequence[str], max_rows: int) -> str:
    """What is added to the reason of an alert if changes near it could not be compared."""
    if not streams:
        return ""
    names = ", ".join(streams)
    return f"; changes of {names} not compared: more than {max_rows:,} rows to read"


def _shorten(feature: str) -> str:
    return feature if len(feature) <= _MAX_FEATURE else f"{feature[: _MAX_FEATURE - 1]}…"
