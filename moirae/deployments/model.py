"""Records of the deployment of rules."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DamagedRule:
    """A stored rule that cannot be read."""

    rule: str
    version: str
    reason: str
