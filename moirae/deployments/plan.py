"""From desired and running rules to what has to change. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Step:
    """`start` a rule, `change` its version, `update` what does not make a version, `stop` it, or let it `stay`."""

    action: Literal["start", "change", "update", "stop", "stay"]
    rule: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Applied:
    """A rule's version, and a hash of all of its definition."""

    version: str
    digest: str


def plan(desired: Mapping[str, Applied], running: Mapping[str, Applied]) -> list[Step]:
    """The steps that lead from what runs to what is desired, in the order of names; equal rules stay."""
    steps: list[Step] = []
    for rule in sorted(desired.keys() | running.keys()):
        want, have = desired.get(rule), running.get(rule)
        if want is None and have is not None:
            steps.append(Step("stop", rule, have.version, None))
        elif want is not None and have is None:
            steps.append(Step("start", rule, None, want.version))
        elif want is not None and have is not None:
            steps.append(Step(_difference(want, have), rule, have.version, want.version))
    return steps


def changes(steps: Sequence[Step]) -> list[Step]:
    """The steps that change something."""
    return [step for step in steps if step.action != "stay"]


def _difference(want: Applied, have: Applied) -> Literal["change", "update", "stay"]:
    if want == have:
        return "stay"
    return "change" if want.version != have.version else "update"
