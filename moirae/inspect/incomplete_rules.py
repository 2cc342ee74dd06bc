"""Rules that have not evaluated all rows: which, why, and from which event time on."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from archiver.times import from_micros
from moirae.inspect.report import IncompleteRule

_MAX_NAMES = 5  # of rules in one line
_PROBLEMS = {"quarantined": "rules in quarantine", "failed": "rules that failed"}


def list_incomplete_rules(rules: Sequence[Mapping[str, Any]]) -> list[IncompleteRule]:
    """The rules that failed or are in quarantine. `rules`: of the status."""
    incomplete: list[IncompleteRule] = []
    for rule in rules:
        if rule["state"] != "quarantined" and rule["error"] is None:
            continue
        incomplete.append(
            IncompleteRule(
                rule=rule["rule"],
                state="quarantined" if rule["state"] == "quarantined" else "failed",
                since=_event_time(rule),
                reason=(rule["error"] or "no reason is known").splitlines()[0],
            )
        )
    return incomplete


def describe_incomplete_rules(status: Mapping[str, Any]) -> Iterator[str]:
    """A line for each rule that has not evaluated all rows at the end of a drain."""
    incomplete = list_incomplete_rules(status["rules"])
    for rule in incomplete:
        yield f"{describe_incomplete_rule(rule)} to the end of the input: {rule['reason']}"
    names = {rule["rule"] for rule in incomplete}
    newest = max(
        (stream["newest"] for stream in status["streams"].values() if stream["newest"]),
        default=None,
    )
    for row in status["rules"]:
        since = _event_time(row)
        if row["rule"] in names or newest is None or (since is not None and since > newest):
            continue
        yield f"rule {row['rule']} is not complete, not evaluated from {_format(since)} on"


def describe_incomplete_rule(rule: IncompleteRule) -> str:
    """`rule g/r is in quarantine, not evaluated from 2026-01-01T00:00:00+00:00`."""
    state = "is in quarantine" if rule["state"] == "quarantined" else "failed"
    return f"rule {rule['rule']} {state}, not evaluated from {_format(rule['since'])}"


def find_rule_problems(status: Mapping[str, Any]) -> Iterator[str]:
    """A line about the rules in quarantine, and one about those that failed and are tried again."""
    for state, description in _PROBLEMS.items():
        rules = [rule for rule in status["incomplete_rules"] if rule["state"] == state]
        if not rules:
            continue
        names: list[str] = []
        for rule in rules[:_MAX_NAMES]:
            names.append(f"{rule['rule']} (not evaluated from {_format(rule['since'])})")
        text = ", ".join(names)
        if len(rules) > _MAX_NAMES:
            text += f" and {len(rules) - _MAX_NAMES:,} more"
        yield f"{description}: {text}: see `moirae rules list`"


def _event_time(rule: Mapping[str, Any]) -> datetime | None:
    settled_to = rule["settled_to"]
    return None if settled_to is None else from_micros(settled_to)


def _format(since: datetime | None) -> str:
    return "the beginning" if since is None else since.isoformat()
