"""Recurring windows of a silence: a cron expression for their starts, and their duration. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

_MAX_DURATION = timedelta(days=7)
_FIELDS = 5
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LAST_DAY = 6


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
        self._triggers  # noqa: B018  an invalid expression is reported when it is read

    @cached_property
    def _triggers(self) -> Sequence[CronTrigger]:
        try:
            return [
                CronTrigger(
                    minute=minute,
                    hour=hour,
                    day=day,
                    month=month,
                    day_of_week=weekdays,
                    timezone=ZoneInfo(self.zone),
                )
                for minute, hour, day, month, weekdays in _split(self.cron)
            ]
        except (ValueError, KeyError, OSError) as error:
            raise ValueError(f"invalid schedule {self.cron[:80]!r}: {error}") from None

    def contains(self, time: datetime) -> bool:
        """Whether a window contains a time."""
        # The first start after (time − duration) is the earliest whose window may contain it.
        earliest = time - self.duration + timedelta(microseconds=1)
        starts = [trigger.get_next_fire_time(None, earliest) for trigger in self._triggers]
        return any(start is not None and start <= time for start in starts)


def _split(cron: str) -> Sequence[Sequence[str]]:
    """The fields of an expression; twice where it names days of the month and of the week.

    As in cron, either of both is enough then.
    """
    fields = cron.split()
    if len(fields) != _FIELDS:
        raise ValueError(f"{_FIELDS} fields are needed: minute hour day month weekday")
    minute, hour, day, month, weekday = fields
    weekdays = _find_weekdays(weekday)
    if day.startswith("*") or weekday.startswith("*"):
        return [(minute, hour, day, month, weekdays)]
    return [(minute, hour, day, month, "*"), (minute, hour, "*", month, weekdays)]


def _find_weekdays(field: str) -> str:
    """The names of days of the week: in cron, Sunday is 0 and 7, in APScheduler Monday is 0."""
    days: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "-", "6") if span == "*" else span.partition("-")
        start = _find_weekday(first)
        end = _find_weekday(last) if last else (_LAST_DAY if step else start)
        if end < start:  # as in fri-mon
            end += len(_DAYS)
        days.update(day % len(_DAYS) for day in range(start, end + 1, int(step or 1)))
    return ",".join(_DAYS[day] for day in sorted(days))


def _find_weekday(text: str) -> int:
    if text in _DAYS:
        return _DAYS.index(text)
    if not text.isdecimal() or int(text) > len(_DAYS):
        raise ValueError(f"{text[:20]!r} is no day of the week: 0 to 7, or sun to sat")
    return int(text)
