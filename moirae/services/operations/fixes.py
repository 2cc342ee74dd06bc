"""What became of fixes, their tags, and resolutions of many alerts at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import Field

from archiver.clock import utc_now
from moirae.alerts import (
    CAME_BACK_WITHIN,
    FixRecord,
    InvestigatedAlert,
    RankedStep,
    rank_steps,
    summarize_fixes,
)
from moirae.errors import Conflict, NotFound, UsageError
from moirae.services.models import Arguments, IdPrefix, Name, Seconds
from moirae.services.operation import operation
from moirae.services.operations.alerts import (
    AddedNote,
    ResolutionBody,
    find_alert,
    resolve_each,
)
from moirae.services.operations.events import load_event_answers
from sql.alerts import TagGateway

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_WITHIN = 366 * 86_400.0  # seconds
_MAX_ALERTS = 1_000  # that are resolved at once
_MAX_MERGED = 100  # tags
_SHOWN_TAGS = 5  # in a message


class TagQuery(Arguments):
    """Which tags to list."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    within: Seconds = Field(
        CAME_BACK_WITHIN.total_seconds(),
        gt=0,
        le=_MAX_WITHIN,
        description="An alert of the same key that fires so soon after the end means that it came "
        "back, in s or as text such as `1h`.",
    )


class TagName(Arguments):
    """Another name of a tag."""

    tag: Name = Field(description="The tag as it is.")
    name: Name = Field(description="Its new name, which no other tag has.")


class MergedTags(Arguments):
    """Tags that become one."""

    tags: list[Name] = Field(
        min_length=1, max_length=_MAX_MERGED, description="The tags that end in the other one."
    )
    into: Name = Field(description="The tag that they become.")


class ResolutionOfAlerts(ResolutionBody):
    """How several alerts were resolved."""

    alerts: list[IdPrefix] = Field(
        min_length=1,
        max_length=_MAX_ALERTS,
        description="IDs of alerts or their events, or unique prefixes.",
    )


@dataclass(frozen=True)
class TagSummary:
    """What became of the alerts that were resolved with a tag: each by its last resolution.

    `worked`: no alert of the same key fired within `within` seconds after the end. `came_back`: one
    did, `came_back_after` seconds after the end. `undecided`: the alert goes on, or the time has not
    passed. `superseded_by`: the tag of what is done instead. `formerly`: earlier names. `summary`:
    all of it in words.
    """

    tag: str
    rules: Sequence[str]
    alerts: int
    first_at: datetime
    last_at: datetime
    within: float
    worked: int
    came_back: int
    came_back_after: Sequence[float]
    did_not_help: int
    no_action_needed: int
    undecided: int
    superseded_by: str | None
    formerly: Sequence[str]
    summary: str


@dataclass(frozen=True)
class RenamedTags:
    """Tags that have a new name, and how many notes have it now."""

    tags: Sequence[str]
    name: str
    notes: int


@operation("GET", "/tags", role="viewer")
def list_tags(workspace: "LocalWorkspace", query: TagQuery) -> list[TagSummary]:
    """List the tags of resolutions, the most frequent first, with what became of their alerts."""
    gateway = TagGateway(workspace.connection)
    records = summarize_fixes(
        gateway.list_tried(query.rule),
        gateway.list_names(),
        timedelta(seconds=query.within),
        utc_now(),
    )
    return [_describe(record, query.within) for record in records]


def _describe(record: FixRecord, within: float) -> TagSummary:
    return TagSummary(
        tag=record.tag,
        rules=record.rules,
        alerts=record.alerts,
        first_at=record.first_at,
        last_at=record.last_at,
        within=within,
        worked=record.worked,
        came_back=len(record.came_back),
        came_back_after=[span.total_seconds() for span in record.came_back],
        did_not_help=record.did_not_help,
        no_action_needed=record.no_action_needed,
        undecided=record.undecided,
        superseded_by=record.superseded_by,
        formerly=record.formerly,
        summary=record.describe(),
    )


@operation("POST", "/tags/rename", role="operator")
def rename_tag(workspace: "LocalWorkspace", body: TagName) -> RenamedTags:
    """Give a tag another name. Notes keep the recorded one beside it; the old name leads to it."""
    gateway = TagGateway(workspace.connection)
    gateway.lock()
    if body.name != body.tag and gateway.count(body.name):
        raise Conflict(f"the tag {body.name!r} is in use: merge {body.tag!r} into it instead")
    return _rename(workspace, gateway, [body.tag], body.name)


@operation("POST", "/tags/merge", role="operator")
def merge_tags(workspace: "LocalWorkspace", body: MergedTags) -> RenamedTags:
    """Make tags one. Notes keep the recorded tag beside it; the old names lead to it."""
    gateway = TagGateway(workspace.connection)
    gateway.lock()
    if not gateway.count(body.into):
        tags = {row.tag for row in gateway.list_tried(None)}
        shown = ", ".join(sorted(tags)[:_SHOWN_TAGS]) or "none"
        raise NotFound(f"no resolution has the tag {body.into!r}; tags are: {shown}")
    return _rename(workspace, gateway, list(dict.fromkeys(body.tags)), body.into)


def _rename(
    workspace: "LocalWorkspace", gateway: TagGateway, tags: Sequence[str], name: str
) -> RenamedTags:
    if not name.strip():
        raise UsageError("the name of a tag must not be blank")
    for tag in tags:
        if tag == name:
            raise UsageError(f"the tag {tag!r} has this name already")
        if not gateway.count(tag):
            raise NotFound(f"no resolution has the tag {tag!r}: `moirae tags list` shows all")
        gateway.rename(tag, name, workspace.author)
    return RenamedTags(tags, name, gateway.count(name))


@operation("POST", "/resolutions", role="operator")
def resolve_alerts(workspace: "LocalWorkspace", body: ResolutionOfAlerts) -> list[AddedNote]:
    """Record the same resolution of several alerts: of all, or of none if one is not found."""
    rows = [find_alert(workspace.connection, prefix) for prefix in body.alerts]
    alerts = dict.fromkeys((row.id, row.rule, row.starts_at) for row in rows)
    return resolve_each(workspace, body, alerts)


@operation("GET", "/alerts/{alert}/steps", role="viewer")
def list_steps(workspace: "LocalWorkspace", alert: IdPrefix) -> list[RankedStep]:
    """Show what was checked for similar past alerts, what found the cause fastest first."""
    row = find_alert(workspace.connection, alert)
    past: dict[UUID, InvestigatedAlert] = {}
    for answer in load_event_answers(workspace, row.eid):
        for hit in answer.hits or ():
            if hit.past is None or hit.past["alert"] is None or hit.past["starts_at"] is None:
                continue
            item = InvestigatedAlert(hit.past["alert"], hit.past["starts_at"], hit.past["notes"])
            past.setdefault(item.alert, item)
    return rank_steps(past.values())
