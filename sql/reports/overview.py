"""Figures for pages: occurrences by day, alerts and cost of rules, judgements of an event."""

from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class OccurrenceRow:
    """Events and alerts of a rule on a day in UTC.

    `fired`: alerts that fired. `without_alert`: events that belong to no alert that fired, such as
    those that `where` or `for` held back.
    """

    rule: str
    day: date
    events: int
    fired: int
    without_alert: int


@dataclass(frozen=True, slots=True)
class RuleWeekRow:
    """What became of the alerts of a rule that were raised in a week, which begins on Monday, UTC.

    `told`: alerts in messages that were delivered; `for_nothing`: those of them that were neither
    acknowledged nor resolved with a tag. `tagged`: resolved with a tag. `flapping`: alerts of a key
    whose last alert had ended less than an hour before. `minutes_to_acknowledge`: the median.
    `recall_seconds`: of the recalls that were requested in the week.
    """

    rule: str
    week: date
    alerts: int
    told: int
    acknowledged: int
    tagged: int
    withdrawn: int
    flapping: int
    for_nothing: int
    minutes_to_acknowledge: float | None
    recall_seconds: float


@dataclass(frozen=True, slots=True)
class EventJudgementRow:
    """A judgement of a past event for an event."""

    past_eid: UUID
    helps: bool
    author: str
    at: datetime


class OverviewGateway(Gateway):
    queries = "overview"

    def count_by_day(self, rule: str | None, days: int) -> list[OccurrenceRow]:
        """Counts of each day and rule with events, oldest first."""
        return self._records(OccurrenceRow, "count_by_day", rule=rule, days=days)

    def report_rules(self, rule: str | None, weeks: int) -> list[RuleWeekRow]:
        """The weeks of rules with alerts or recalls, newest first, then those most often for nothing."""
        return self._records(RuleWeekRow, "report_rules", rule=rule, weeks=weeks)

    def list_judgements(self, eid: UUID) -> list[EventJudgementRow]:
        """The judgements of past events for an event, newest first."""
        return self._records(EventJudgementRow, "list_judgements", eid=eid)
