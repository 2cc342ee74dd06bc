"""Plans deployment steps from desired and running rules. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DeploymentStep:
    """A step of a deployment.

    `change`: another version; `update`: another definition of the same version.
    """

    action: Literal["start", "change", "update", "stop", "stay"]
    rule: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class AppliedVersion:
    """The version of a rule, and a hash of its whole definition."""

    version: str
    digest: str


def plan_steps(
    desired: Mapping[str, AppliedVersion], running: Mapping[str, AppliedVersion]
) -> list[DeploymentStep]:
    """The steps from running to desired rules, in the order of names."""
    steps: list[DeploymentStep] = []
    for rule in sorted(desired.keys() | running.keys()):
        target, current = desired.get(rule), running.get(rule)
        if target is None and current is not None:
            steps.append(DeploymentStep("stop", rule, current.version, None))
        elif target is not None and current is None:
            steps.append(DeploymentStep("start", rule, None, target.version))
        elif target is not None and current is not None:
            action = _compare(target, current)
            steps.append(DeploymentStep(action, rule, current.version, target.version))
    return steps


def changing_steps(steps: Sequence[DeploymentStep]) -> list[DeploymentStep]:
    """The steps other than `stay`."""
    return [step for step in steps if step.action != "stay"]


def _compare(
    target: AppliedVersion, current: AppliedVersion
) -> Literal["change", "update", "stay"]:
    if target == current:
        return "stay"
    if target.version == current.version:
        return "update"
    return "change"
