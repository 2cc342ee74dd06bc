"""What an import did: imported rules, those left out with the reason, and conflicts. No I/O."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class RuleLocation(NamedTuple):
    """Where a Sigma rule is: its file, the line at which it starts, its title and ID."""

    file: str
    line: int | None
    column: int | None = None
    title: str = ""
    sigma_id: str = ""

    def __str__(self) -> str:
        numbers = [str(number) for number in (self.line, self.column) if number is not None]
        return ":".join([self.file, *numbers])


class LeftOut(NamedTuple):
    """A rule that is not imported. `kind`: under which it is counted."""

    location: RuleLocation
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: left out: {self.reason}"


class MergeConflict(NamedTuple):
    """A key of a rule that was changed both in the rule file and in the collection."""

    rule: str
    file: str
    key: str

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.key} was changed here and in Sigma; kept as it is here"


@dataclass
class ImportReport:
    """The result of an import.

    `correlated`: rules that only correlations use. `removed`: imported before, not in the paths.
    `deleted`: imported before, and deleted from the rule file; they stay deleted. `files`: written.
    """

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    correlated: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: list[MergeConflict] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    ignored: int = 0

    @property
    def imported(self) -> int:
        """Number of rules of the collection that the rule files have."""
        return len(self.added) + len(self.updated) + len(self.unchanged)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left out, and nothing is for the user to decide."""
        return not (self.left_out or self.conflicts or self.removed)

    def count_left_out(self) -> Mapping[str, int]:
        """Number of rules left out by kind, the most frequent first."""
        counts = Counter(item.kind for item in self.left_out)
        return dict(counts.most_common())
