"""List and show events, their answers and similar past events."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from pydantic import Field

import sql
from moirae.alerts import find_event
from moirae.errors import NotFound
from moirae.inspect.past_events import RecallAnswer
from moirae.services.models import (
    Arguments,
    IdPrefix,
    Name,
    PageQuery,
    Time,
    decode_cursor,
    next_cursor,
)
from moirae.services.operation import operation
from sql.events import ContextGateway, EventFilter, EventGateway, StoredEventRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace


class EventQuery(PageQuery):
    """Which events to list."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    since: Time | None = Field(None, description="Only events at this time or later.")
    until: Time | None = Field(None, description="Only events before this time.")


class JudgementBody(Arguments):
    """A judgement of a similar past event."""

    past: IdPrefix = Field(description="Past event or its alert, or a unique prefix of an ID.")
    helps: bool = Field(description="Whether the past event is relevant to the event.")


class WithdrawalBody(Arguments):
    """Which judgement to withdraw."""

    past: IdPrefix = Field(description="Past event or its alert, or a unique prefix of an ID.")


@dataclass(frozen=True)
class EventPage:
    """Events, newest first. `next`: cursor of the next page. `total`: if it was asked for."""

    events: Sequence[StoredEventRow]
    next: str | None
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDetails:
    """An event with its contexts and surroundings; None until they are computed.

    `settled_context`: whether they can still change. `truncated`: number of rows of each truncated
    context before truncation.
    """

    eid: UUID
    rule: str
    version: str
    ts: datetime
    key: Mapping[str, Any]
    attributes: Mapping[str, Any]
    settled: bool
    past: bool
    at: datetime
    contexts: Mapping[str, Sequence[Mapping[str, Any]]] | None
    surroundings: Mapping[str, Sequence[Mapping[str, Any]]] | None
    settled_context: bool | None
    truncated: Mapping[str, int]


@dataclass(frozen=True)
class StoredJudgement:
    """A judgement of a similar past event."""

    eid: UUID
    past_eid: UUID
    helps: bool
    author: str


@dataclass(frozen=True)
class JudgedEvents:
    """An event and a past one whose judgement by `author` was withdrawn."""

    eid: UUID
    past_eid: UUID
    author: str


@operation("GET", "/events", role="viewer")
def list_events(workspace: "LocalWorkspace", query: EventQuery) -> EventPage:
    """List events, newest first."""
    gateway = EventGateway(workspace.connection)
    selection = EventFilter(
        rule=query.rule,
        since=query.since,
        until=query.until,
        after=decode_cursor(query.cursor, datetime.fromisoformat, UUID),
    )
    events = gateway.list_newest(selection, limit=query.limit)
    following = next_cursor(events, query.limit, lambda event: (event.ts, event.eid))
    return EventPage(events, following, gateway.count_newest(selection) if query.count else None)


@operation("GET", "/events/{event}", role="viewer")
def show_event(workspace: "LocalWorkspace", event: IdPrefix) -> EventDetails:
    """Show an event with its attributes, contexts and surroundings."""
    eid = find_event(workspace.connection, event)
    details = describe_event(workspace.connection, eid)
    if details is None:
        raise NotFound(
            f"event {eid} has been deleted, only its recalls remain: see `moirae recalls show {eid}`"
        )
    return details


@operation("GET", "/events/{event}/recalls", role="viewer")
def show_answers(workspace: "LocalWorkspace", event: IdPrefix) -> list[RecallAnswer]:
    """Show the last answers of all recalls of an event, with coverage and remaining time."""
    return load_event_answers(workspace, find_event(workspace.connection, event))


@operation("GET", "/events/{event}/similar", role="viewer")
def show_similar(workspace: "LocalWorkspace", event: IdPrefix) -> list[RecallAnswer]:
    """Show the past events most similar to an event, with shared context and resolutions."""
    eid = find_event(workspace.connection, event)
    answers = load_event_answers(workspace, eid)
    similar = [answer for answer in answers if answer.kind == "similar"]
    if not similar:
        _refuse_comparison(workspace.connection, eid)
    return similar


@operation("POST", "/events/{event}/judgements", role="operator")
def judge(workspace: "LocalWorkspace", event: IdPrefix, body: JudgementBody) -> StoredJudgement:
    """Judge whether a past event is relevant to an event.

    It replaces an earlier judgement of the two events by the same person.
    """
    from moirae.feedback import Judgement, record_judgement

    judgement = Judgement(
        find_event(workspace.connection, event),
        find_event(workspace.connection, body.past),
        body.helps,
        workspace.author,
    )
    record_judgement(workspace.connection, judgement)
    return StoredJudgement(judgement.eid, judgement.past_eid, body.helps, workspace.author)


@operation("POST", "/events/{event}/judgements/withdraw", role="operator")
def withdraw_judgement(
    workspace: "LocalWorkspace", event: IdPrefix, body: WithdrawalBody
) -> JudgedEvents:
    """Withdraw one's own judgement of a past event for an event."""
    from moirae.feedback import withdraw_judgement as withdraw

    eid = find_event(workspace.connection, event)
    past_eid = find_event(workspace.connection, body.past)
    withdraw(workspace.connection, eid, past_eid, author=workspace.author)
    return JudgedEvents(eid, past_eid, workspace.author)


def _refuse_comparison(connection: sql.Connection, eid: UUID) -> NoReturn:
    """Say why an event has no answer of a similarity recall."""
    from moirae.deployments import RuleRegistry
    from moirae.rules import SimilarRecall

    event = EventGateway(connection).get(eid)
    if event is not None and event.past:
        raise NotFound(f"event {eid} was found in history: recalls are for alerts that fire live")
    names = [] if event is None else [event.rule]
    for definition in RuleRegistry(connection).load_stored(names)[0]:
        recalls = definition.spec.recall.values()
        if any(isinstance(recall, SimilarRecall) for recall in recalls):
            raise NotFound(
                f"event {eid} is not compared with past events yet: the comparison begins when its "
                "alert fires and its context is settled"
            )
    raise NotFound(f"event {eid} has no similarity recall: its rule declares none")


def load_event_answers(workspace: "LocalWorkspace", eid: UUID) -> list[RecallAnswer]:
    """The last answers of all recalls of an event, with the forecast of their ends."""
    from moirae.inspect.past_events import load_answers

    recall = workspace.settings.recall
    return load_answers(workspace.connection, eid, recall.history_queries * recall.processes)


def describe_event(connection: sql.Connection, eid: UUID) -> EventDetails | None:
    """The event as the newest version of its rule has detected it; None if it is deleted."""
    event = EventGateway(connection).get(eid)
    if event is None:
        return None
    gateway = ContextGateway(connection)
    # For the version of the rule that detected the event.
    context_key = event.rule, event.version, eid
    context = gateway.get(*context_key)
    return EventDetails(
        **asdict(event),
        contexts=None if context is None else context.contexts,
        surroundings=None if context is None else context.surroundings,
        settled_context=None if context is None else context.settled,
        truncated=gateway.get_row_counts(*context_key),
    )
