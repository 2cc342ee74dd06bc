"""What pages show at a glance: answers of many alerts, streams around an event, worth of rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import Field

from moirae.alerts import find_event
from moirae.errors import NotFound
from moirae.inspect import NormBand, Timeline
from moirae.inspect.past_events import RecallAnswer, SimilarEvent
from moirae.runtime.storage import archived_streams, open_storage
from moirae.services.models import Arguments, IdPrefix, Name, Seconds
from moirae.services.operation import operation
from moirae.services.operations.events import load_event_answers
from sql.events import EventGateway
from sql.reports import (
    EventJudgementRow,
    OccurrenceRow,
    OverviewGateway,
    RuleWeekRow,
)

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_EVENTS = 100
_MAX_RANGE = 7 * 86_400.0  # seconds
_MAX_DAYS = 400
_MAX_WEEKS = 53
_CHART_INTERVALS = 240


class AnswersQuery(Arguments):
    """Which events to look up."""

    event: list[UUID] = Field(min_length=1, max_length=_MAX_EVENTS, description="IDs of events.")


class TimelineQuery(Arguments):
    """The range of a timeline around its event."""

    before: Seconds = Field(
        3600, ge=60, le=_MAX_RANGE, description="Before the event, in s or as text such as `1h`."
    )
    after: Seconds = Field(
        1800, ge=60, le=_MAX_RANGE, description="After the event, in s or as text such as `1h`."
    )


class OccurrencesQuery(Arguments):
    """Which events to count."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    days: int = Field(35, ge=1, le=_MAX_DAYS, description="Number of days until now, in UTC.")


class RuleReportQuery(Arguments):
    """Which weeks of which rules to report."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    weeks: int = Field(4, ge=1, le=_MAX_WEEKS, description="Number of weeks, with the present one.")


@dataclass(frozen=True)
class EventAnswers:
    """The answers of an event's recalls. Similar past events are listed without terms and contexts.

    `attributes`: of the event; empty if it has been deleted.
    """

    eid: UUID
    attributes: Mapping[str, Any]
    answers: Sequence[RecallAnswer]


@operation("GET", "/overview/answers", role="viewer")
def list_answers(workspace: "LocalWorkspace", query: AnswersQuery) -> list[EventAnswers]:
    """Show what is normal and the similar past events of several events."""
    events = EventGateway(workspace.connection)
    entries = []
    for eid in dict.fromkeys(query.event):
        answers = []
        event = events.get(eid)
        for answer in load_event_answers(workspace, eid):
            hits = None if answer.hits is None else list(map(_summarize, answer.hits))
            answers.append(replace(answer, hits=hits))
        attributes = {} if event is None else event.attributes
        entries.append(EventAnswers(eid, attributes, answers))
    return entries


def _summarize(hit: SimilarEvent) -> SimilarEvent:
    """A similar past event without what a list of alerts does not show."""
    past = hit.past
    if past is not None:
        past = {**past, "attributes": {}, "contexts": None}
    return replace(hit, past=past, shared=[], only_new=[], only_past=[], tag_terms=[])


@operation("GET", "/overview/occurrences", role="viewer")
def count_occurrences(workspace: "LocalWorkspace", query: OccurrencesQuery) -> list[OccurrenceRow]:
    """Count events and alerts of each day and rule, oldest first."""
    return OverviewGateway(workspace.connection).count_by_day(query.rule, query.days)


@operation("GET", "/overview/report", role="viewer")
def report_rules(workspace: "LocalWorkspace", query: RuleReportQuery) -> list[RuleWeekRow]:
    """Show what rules are worth: for each week, what became of their alerts, and their cost."""
    return OverviewGateway(workspace.connection).report_rules(query.rule, query.weeks)


@operation("GET", "/events/{event}/judgements", role="viewer")
def list_judgements(workspace: "LocalWorkspace", event: IdPrefix) -> list[EventJudgementRow]:
    """List the judgements of similar past events of an event."""
    eid = find_event(workspace.connection, event)
    return OverviewGateway(workspace.connection).list_judgements(eid)


@operation("GET", "/events/{event}/norms", role="viewer")
def show_norm_bands(
    workspace: "LocalWorkspace", event: IdPrefix, query: TimelineQuery
) -> list[NormBand]:
    """Show what the norms of an event say is usual around it, hour by hour."""
    from moirae.inspect import load_norm_bands

    settings, connection = workspace.settings, workspace.connection
    return load_norm_bands(
        open_storage(settings),
        connection,
        archived_streams(settings, connection),
        find_event(connection, event),
        before=timedelta(seconds=query.before),
        after=timedelta(seconds=query.after),
    )


@operation("GET", "/events/{event}/timeline", role="viewer")
def show_timeline(workspace: "LocalWorkspace", event: IdPrefix, query: TimelineQuery) -> Timeline:
    """Show the values of the streams that have the event's key, around the event."""
    from moirae.inspect import load_timeline

    eid = find_event(workspace.connection, event)
    row = EventGateway(workspace.connection).get(eid)
    if row is None:
        raise NotFound(f"event {eid} has been deleted")
    settings = workspace.settings
    schemas = archived_streams(settings, workspace.connection)
    return load_timeline(
        open_storage(settings),
        schemas,
        row.ts,
        row.key,
        before=timedelta(seconds=query.before),
        after=timedelta(seconds=query.after),
        intervals=_CHART_INTERVALS,
    )
