"""Records of the deployment tables."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

RunState = Literal["running", "quarantined", "stopped"]


@dataclass(frozen=True)
class Deployment:
    """A running version of a rule.

    `settled_to`: events before this event time are settled, in microseconds; None: none are.
    """

    rule: str
    version: str
    settled_to: int | None
    state: RunState
    failures: int = 0
    error: str | None = None
    suspect: bool = False
    """Whether the process crashed recently while evaluating this rule, perhaps with others."""


@dataclass(frozen=True)
class DamagedRule:
    """A stored rule that cannot be read."""

    rule: str
    version: str
    reason: str


@dataclass(frozen=True)
class RuleError:
    """An error of a rule.

    `event`: the row that caused it, if known. `times`: number of occurrences; for a flood, the
    number of events that were dropped.
    """

    rule: str
    version: str
    kind: Literal["error", "time", "memory", "flood"]
    message: str
    event: Any
    times: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class RuleFilesState:
    """State of the workspace's rule files.

    `asked`: number of reload requests; `answered`: the last request that was served.
    `problems`: why the files were rejected; None if they are applied.
    """

    asked: int
    answered: int
    digest: str | None
    looked_at: datetime | None
    problems: list[str] | None
