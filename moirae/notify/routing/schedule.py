"""Recurring windows of a silence: a cron expression for their starts, and their duration. No I/O."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

_MAX_DURATION = timedelta(days=7)


@dataclass(frozen=True)
class Recurrence:
    """Windows that start at the times of a cron expression and last some time.

    `zone`: the time zone of the expression. Raises `ValueError` if it is invalid.
    """

    cron: str
    duration: timedelta
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not timedelta(0) < self.duration <= _MAX_DURATION:
            raise ValueError("a window lasts more than 0s and at most 7d")
        self._trigger  # noqa: B018  an invalid expression is reported when it is read

    @cached_property
    def _trigger(self) -> CronTrigger:
        try:
            return CronTrigger.from_crontab(self.cron, timezone=ZoneInfo(self.zone))
        except (ValueError, KeyError, OSError) as error:
            raise ValueError(f"invalid schedule {self.cron[:80]!r}: {error}") from None

    def contains(self, time: datetime) -> bool:
        """Whether a window contains a time."""
        # The first start after (time − duration) is the earliest whose window may contain it.
        start = self._trigger.get_next_fire_time(
            None, time - self.duration + timedelta(microseconds=1)
        )
        return start is not None and start <= time
