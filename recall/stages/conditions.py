"""What a rule's condition says of an alert at a revision. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from archiver.time_range import TimeRange
from recall.operators import exact_estimate
from recall.stages.answer_rows import add_coverage

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
    """A recall of the event. `revision`: the number of its last answer, 0 without one.

    `coverage` and `estimates`: of that answer, as they are stored.
    """

    state: str
    revision: int
    rows: Sequence[Mapping[str, Any]]
    coverage: Mapping[str, Any] | None = None
    estimates: Sequence[Mapping[str, Any]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a further answer may follow."""
        return self.state in _OPEN_STATES

    @property
    def is_decided(self) -> bool:
        """Whether it has an answer, or will have none."""
        return self.revision > 0 or not self.is_open

    @property
    def usable_rows(self) -> list[Mapping[str, Any]]:
        return [] if self.state in _ENDED_WITHOUT_ROWS else list(self.rows)

    @property
    def judged_rows(self) -> list[dict[str, Any]]:
        """The usable rows with what they were computed from; a row of that alone if there are none."""
        if self.state in _ENDED_WITHOUT_ROWS:
            return []
        return add_coverage(self.rows or [{}], self.coverage, self.estimates)

    def cover_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The present rows of the recall with what its last answer was computed from.

        `rows`: as they result from row revisions. Those of the answer take their place if it has
        all of them, so that rows and coverage are of one revision.
        """
        coverage = self.coverage or {}
        has_all_rows = self.estimates is not None and not coverage.get("appends")
        if has_all_rows:
            rows = self.usable_rows
        return add_coverage(rows, self.coverage, self.estimates if has_all_rows else None)


def make_final_answer(rows: Sequence[Mapping[str, Any]], time_range: TimeRange) -> RecallState:
    """The answer of a recall that has read a whole range of event time."""
    coverage = {
        "share": 1.0,
        "read_from": time_range.start,
        "read_to": time_range.end,
        "final": True,
    }
    estimates = [{name: vars(exact_estimate(value)) for name, value in row.items()} for row in rows]
    return RecallState("done", 1, rows, coverage, estimates)


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
