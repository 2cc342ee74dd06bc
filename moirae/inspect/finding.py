"""The result of one check of the doctor."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of a check: each problem with the ID of its record, and what was checked."""

    check: str
    problems: Sequence[str]
    summary: str = ""
