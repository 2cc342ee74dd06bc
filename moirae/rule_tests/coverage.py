"""What tests of rules cover: rules, stages, and both outcomes of conditions. No I/O."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from moirae.rules import Definition


class CoveredItem(NamedTuple):
    """A part of a rule of which a test expects something."""

    rule: str
    part: str

    @classmethod
    def of_stage(cls, rule: str, stage: str) -> "CoveredItem":
        return cls(rule, f"stage {stage}")

    @classmethod
    def of_condition(cls, rule: str, outcome: bool) -> "CoveredItem":
        """An alert for which `where` is true, or false."""
        return cls(rule, f"where is {str(outcome).lower()}")

    def __str__(self) -> str:
        return self.rule if self.part == "rule" else f"{self.rule}: {self.part}"


def list_parts(definition: Definition) -> list[CoveredItem]:
    """All parts of a rule that tests can cover."""
    name, spec = definition.name, definition.spec
    items = [CoveredItem(name, "rule")]
    items += [CoveredItem.of_stage(name, stage.stream) for stage in spec.then]
    if spec.where is not None:
        items += [CoveredItem.of_condition(name, outcome) for outcome in (True, False)]
    return items


@dataclass(frozen=True)
class RuleTestCoverage:
    """`percent`: of all parts, rounded down. `missing`: those of which no test expects anything."""

    percent: int
    missing: tuple[CoveredItem, ...]


def measure_coverage(
    definitions: Iterable[Definition], covered: Collection[CoveredItem]
) -> RuleTestCoverage:
    """What tests cover of some rules. Of none, they cover all."""
    items = [item for definition in definitions for item in list_parts(definition)]
    missing = tuple(sorted(item for item in items if item not in covered))
    percent = 100 * (len(items) - len(missing)) // len(items) if items else 100
    return RuleTestCoverage(percent, missing)
