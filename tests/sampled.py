"""Cases of which the default run tries some, and `make slow` all."""

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters: the first of each `step` cases as they are, the others marked slow.

    A case that is a tuple is the values of several arguments.
    """
    return [case if number % step == 0 else _mark_slow(case) for number, case in enumerate(cases)]


def _mark_slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
