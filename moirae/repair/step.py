"""What a repair does with one damaged part of a workspace."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RepairStep:
    """A step. `subject`: what is damaged; `action`: what is done; `loss`: what is lost by it, empty
    if nothing is. `run` does it.
    """

    subject: str
    damage: str
    action: str
    loss: str
    run: Callable[[], None]

    def to_json(self) -> dict[str, Any]:
        """The form of `moirae doctor --repair -o json`."""
        return {
            "subject": self.subject,
            "damage": self.damage,
            "action": self.action,
            "loss": self.loss,
        }
