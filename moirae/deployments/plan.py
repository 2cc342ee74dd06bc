"""From desired and running rules to what has to change. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DeploymentStep:
    """`start` a rule, `change` its version, `update` what does not make a version, `stop` it, or let it `stay`."""

    action: Literal["start", "change", "update", "stop", "stay"]
    rule: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class AppliedVersion:
    """A rule's version, and a hash of all of its definition."""

    version: str
    digest: str


def plan_steps(
    desired: Mapping[str, AppliedVersion], running: Mapping[str, AppliedVersion]
) -> list[DeploymentStep]:
    """The steps that lead from what runs to what is desired, in the order of names; equal rules stay."""
    steps: list[DeploymentStep] = []
    for rule in sorted(desired.keys() | running.keys()):
        want, have = desired.get(rule), running.get(rule)
        if want is None and have is not None:
            steps.append(DeploymentStep("stop", rule, have.version, None))
        elif want is not None and have is None:
            steps.append(DeploymentStep("start", rule, None, want.version))
        elif want is not None and have is not None:
            steps.append(DeploymentStep(_compare(want, have), rule, have.version, want.version))
    return steps


def changing_steps(steps: Sequence[DeploymentStep]) -> list[DeploymentStep]:
    """The steps that change something."""
    return [step for step in steps if step.action != "stay"]


def _compare(want: AppliedVersion, have: AppliedVersion) -> Literal["change", "update", "stay"]:
    if want == have:
        return "stay"
    return "change" if want.version != have.version else "update"
