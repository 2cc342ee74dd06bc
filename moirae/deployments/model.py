"""What is deployed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

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
