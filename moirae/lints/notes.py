"""Notes on what an operator misses in the alerts of a rule. No I/O."""

from collections.abc import Iterator

from moirae.documents import KeyPath
from moirae.rules import Definition, LintName

_SEVERITY = "severity"
_RUNBOOK = "runbook_url"


def find_missing_texts(definition: Definition) -> Iterator[tuple[LintName, KeyPath, str]]:
    """The label and the annotation that notifications and operators go by."""
    if _SEVERITY not in definition.spec.labels:
        yield (
            "missing-severity",
            ("alert",),
            f"no label {_SEVERITY}: routes cannot tell whom its alerts wake",
        )
    if _RUNBOOK not in definition.spec.annotations:
        yield (
            "missing-runbook",
            ("alert",),
            f"no annotation {_RUNBOOK}: what to do about its alerts",
        )
