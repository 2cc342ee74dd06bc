"""What is deployed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

RunState = Literal["running", "quarantined", "stopped"]


@dataclass(frozen=True)
class Deployment:
    """What runs of a rule. `settled_to`: its events before this event time (microseconds) are settled, None: none."""

    rule: str
    version: str
    settled_to: int | None
    state: RunState
    failures: int = 0
    error: str | None = None
    suspect: bool = False
    """Whether the process fell lately while it, perhaps with others, was judged."""


@dataclass(frozen=True)
class DamagedRule:
    """A stored rule that cannot be read, and why."""

    rule: str
    version: str
    reason: str


@dataclass(frozen=True)
class RuleError:
    """What a rule is charged with. `event`: the row at fault, where one was found; `times`: how often, or for a flood
    how many events were left out."""

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
    """What became of the workspace's rule files: `problems` says why they were refused, None: they are applied.

    `asked`: how often another look was asked for; `answered`: up to which of these requests there was one.
    """

    asked: int
    answered: int
    digest: str | None
    looked_at: datetime | None
    problems: list[str] | None
