"""Alerts as notifications see them: labels, times, and the reason of their end. No I/O."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal
from uuid import UUID

from moirae.alerts import canonical_json, make_incident_id
from moirae.config.matchers import Matcher

EndReason = Literal["ended", "no_data", "withdrawn"]
WithdrawalCause = Literal["history", "settling"]
"""The rule's `where`, or rows that came late."""

# Of alerts that other systems post.
_EXTERNAL = "external/"
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1
_SEPARATOR = b"\xff"
# Labels by which Alertmanager sorts alerts first.
_FIRST_SORTED = ("job", "instance")
_GO_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


@dataclass(frozen=True, kw_only=True)
class NotifiedAlert:
    """An alert. Times are event times, but `raised_at`: by the clock, when it was stored as firing.

    `labels`: also the values of its key. `ends_at` None: it fires. `end_reason`: why it ended.
    `withdrawn_by`: what withdrew it; None: nothing has.
    `incident`: in which it was when it fired; None: in none yet.
    `is_acknowledged`: somebody looks after it. `is_late`: it fired long ago by the clock.
    `is_restored`: receivers may know it from the workspace before its restore.
    """

    id: UUID
    eid: UUID
    rule: str
    version: str
    member: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    raised_at: datetime
    ends_at: datetime | None = None
    end_reason: EndReason | None = None
    withdrawn_by: WithdrawalCause | None = None
    incident: UUID | None = None
    is_acknowledged: bool = False
    is_late: bool = False
    is_restored: bool = False

    @property
    def group_incident(self) -> UUID:
        """The incident by which routes group it: one of its own if it is in none."""
        return self.incident or make_incident_id(self.id)

    @property
    def is_resolved(self) -> bool:
        return self.ends_at is not None

    @property
    def is_external(self) -> bool:
        """Whether another system posts it."""
        return is_external(self.rule)

    @property
    def waits_since(self) -> datetime:
        """From which `group_wait` counts. Alertmanager is told when an alert fired, not when its
        condition began to hold: with `for`, that is much later.
        """
        return self.starts_at if self.is_external else self.raised_at

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the labels, as Alertmanager computes it."""
        number = _FNV_OFFSET
        for name in sorted(self.labels):
            for part in (name.encode(), _SEPARATOR, self.labels[name].encode(), _SEPARATOR):
                for byte in part:
                    number = ((number ^ byte) * _FNV_PRIME) & _MASK
        return f"{number:016x}"

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """The order of alerts in Alertmanager's messages."""
        first = [self.labels.get(name, "") for name in _FIRST_SORTED]
        return (*first, len(self.labels), sorted(self.labels.items()))


def is_external(rule: str) -> bool:
    """Whether a rule stands for alerts that another system posts."""
    return rule.startswith(_EXTERNAL)


def make_member(rule: str, key: Mapping[str, Any]) -> str:
    """The identity of the alerts of one key: a rule has at most one open alert of it.

    By names and values: of alerts whose rules are not declared here, names may differ.
    """
    content = canonical_json([rule, *(part for item in sorted(key.items()) for part in item)])
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def make_labels(labels: Mapping[str, str], key: Mapping[str, Any]) -> dict[str, str]:
    """The labels of an alert and the values of its key as text; NULL and empty values give none."""
    result = {name: _to_text(value) for name, value in key.items() if value is not None}
    return {name: value for name, value in {**result, **labels}.items() if value != ""}


def make_matchers(labels: Mapping[str, str], key: Mapping[str, Any]) -> list[str]:
    """The matchers of a silence of one alert."""
    matched = sorted(make_labels(labels, key).items())
    return [str(Matcher(name, "=", value)) for name, value in matched]


def _to_text(value: Any) -> str:
    """The text of a key's value, as Spark casts it to a string."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def format_labels(labels: Mapping[str, str]) -> str:
    """Labels as Go prints a label set."""
    return "{" + ", ".join(f"{name}={_quote(labels[name])}" for name in sorted(labels)) + "}"


def _quote(text: str) -> str:
    """A text in quotes, as Go's %q writes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
