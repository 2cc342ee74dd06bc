"""What a rule's condition says of an alert at a revision. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

History = Literal["waiting", "kept", "withdrawn", "no_history"]
_OPEN_STATES = ("waiting", "running", "suspended")
_ENDED_WITHOUT_ROWS = ("failed", "cancelled")


@dataclass(frozen=True)
class Verdict:
    """`history` of an alert with its reason. `final`: after the last revision."""

    history: History
    final: bool
    reason: str


@dataclass(frozen=True)
class RecallState:
    """A recall of the event. `revision`: the number of its last answer, 0 without one."""

    state: str
    revision: int
    rows: list[Mapping[str, Any]]

    @property
    def is_decided(self) -> bool:
        """Whether it has an answer, or will have none."""
        return self.revision > 0 or self.state not in _OPEN_STATES

    @property
    def usable_rows(self) -> list[Mapping[str, Any]]:
        return [] if self.state in _ENDED_WITHOUT_ROWS else self.rows


def find_undecided(names: Sequence[str], recalls: Mapping[str, RecallState]) -> list[str]:
    """The recalls among some that have neither an answer nor ended."""
    undecided = []
    for name in sorted(names):
        recall = recalls.get(name)
        if recall is None or not recall.is_decided:
            undecided.append(name)
    return undecided


def decide(
    value: bool | None, names: Sequence[str], recalls: Mapping[str, RecallState], *, final: bool
) -> Verdict:
    """The verdict by the value of the condition; None: NULL for all rows."""
    basis = ", ".join(_describe(name, recalls.get(name)) for name in sorted(names))
    if value is None:
        history: History = "no_history" if final else "waiting"
        return Verdict(history, final, f"the condition is NULL over {basis}")
    history = "kept" if value else "withdrawn"
    return Verdict(history, final, f"the condition is {str(value).lower()} over {basis}")


def decide_without_value(reason: str, *, final: bool) -> Verdict:
    """The verdict where the condition cannot be evaluated."""
    return Verdict("no_history" if final else "waiting", final, reason)


def _describe(name: str, recall: RecallState | None) -> str:
    if recall is None:
        return f"{name} (never started)"
    if recall.state in _ENDED_WITHOUT_ROWS:
        return f"{name} ({recall.state})"
    return f"{name} (revision {recall.revision}, {recall.state})"
