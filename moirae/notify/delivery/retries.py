"""When messages are sent again. No I/O."""

from datetime import timedelta

_FIRST_DELAY = 1.0  # seconds
_MAX_DELAY = 300.0  # seconds
_JITTER = 0.25  # of a delay, at most
MAX_REJECTIONS = 5
"""Attempts after which a message is given up that a receiver refuses itself."""
MAX_AGE = timedelta(days=7)
"""After which a message is given up that its receiver could not take."""


def find_delay(failures: int, retry_after: float | None, random: float) -> float:
    """Seconds until the next attempt. `failures`: consecutive ones. `random`: from 0 to 1."""
    delay: float = min(_FIRST_DELAY * 2 ** min(failures - 1, 10), _MAX_DELAY)
    delay *= 1 + _JITTER * (2 * random - 1)
    return max(delay, retry_after or 0.0)


def decide_retry(
    *, attempts: int, age: timedelta, is_rejected: bool, retry_after: float | None, random: float
) -> float | None:
    """Seconds until a message is tried again after a failure; None: it is given up."""
    if (is_rejected and attempts >= MAX_REJECTIONS) or age > MAX_AGE:
        return None
    return find_delay(attempts, retry_after, random)
