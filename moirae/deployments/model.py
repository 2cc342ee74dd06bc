"""What is deployed."""

from dataclasses import dataclass
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
