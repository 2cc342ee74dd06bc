"""List recalls and their revisions, control them, and compute their answers again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from pydantic import Field

import sql
from moirae.alerts import find_event, find_event_or_recall
from moirae.errors import Conflict, NotFound, UsageError
from moirae.inspect.past_events import SimilarEvent
from moirae.runtime.storage import open_storage
from moirae.services.models import (
    Arguments,
    IdPrefix,
    Name,
    PageQuery,
    Seconds,
    decode_cursor,
    next_cursor,
)
from moirae.services.operation import operation
from sql.recalls import CommandGateway, TaskFilter, TaskGateway, TaskSummaryRow
from sql.reports import ChangedStageRow, ChangeGateway, RevisionRow
from sql.stages import RowRevisionGateway, RowRevisionRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

RecallState = Literal["waiting", "running", "suspended", "done", "finalized", "cancelled", "failed"]
Verb = Literal["cancel", "finalize", "accelerate", "refine"]
_MAX_AGE = 10 * 365 * 86_400.0  # seconds
_MAX_REVISIONS = 1_000


class RecallQuery(PageQuery):
    """Which recalls to list."""

    event: IdPrefix | None = Field(None, description="Only recalls of this event or alert.")
    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    state: list[RecallState] | None = Field(
        None, description="Only recalls in one of these states."
    )


class RevisionQuery(Arguments):
    """Which revisions to list."""

    after: int = Field(0, ge=0, lt=1 << 31, description="Only revisions with a higher number.")
    limit: int = Field(100, ge=1, le=_MAX_REVISIONS, description="Maximum number of revisions.")


class CommandBody(Arguments):
    """A command on recalls that have not ended. All criteria that are set must match."""

    command: Verb = Field(
        description="cancel: end, discard the answer; finalize: end, keep the answer; accelerate: "
        "give more tickets; refine: resume after a suspension."
    )
    id: IdPrefix | None = Field(
        None, description="Event, alert or recall ID, or a unique prefix of it."
    )
    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    older_than: Seconds | None = Field(
        None,
        ge=0,
        le=_MAX_AGE,
        description="Only recalls requested at least this long ago, in s or as text such as `1h`.",
    )
    key: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="A command with a key that was used has no further effect.",
    )


@dataclass(frozen=True)
class RecallPage:
    """Recalls, newest first. `next`: cursor of the next page. `total`: if it was asked for."""

    recalls: Sequence[TaskSummaryRow]
    next: str | None
    total: int | None


@dataclass(frozen=True, kw_only=True)
class RecallRevision:
    """A numbered answer. An SQL recall or a stage has `rows`, a similarity recall has `hits`.

    `recall` and `coverage`: None for a stage. `estimates`: for each row, by column, the estimate for
    the whole range with its interval. `comparable`: the probability that the best hit is of the
    same kind. `match`: see `RecallAnswer.match`. `forecast`: by the measure `learned`, the probable
    resolutions (`tags`) and the probability of none of these (`new_tag`). `error`: why a stage has failed.
    """

    recall: UUID | None
    eid: UUID
    rule: str
    name: str
    kind: str
    number: int
    final: bool
    coverage: Mapping[str, Any] | None
    rows: Sequence[Mapping[str, Any]] | None
    hits: Sequence[SimilarEvent] | None
    estimates: Sequence[Mapping[str, Any]] | None
    comparable: float | None
    match: Mapping[str, Any] | None
    forecast: Mapping[str, Any] | None
    error: str | None
    at: datetime


@dataclass(frozen=True)
class RowRevisionPage:
    """Consecutive row revisions of a recall or stage; the fields of `recall.ledger.RevisionBatch`.

    `last`: the number to read on from. `boundary`: the event time before which all events of the
    rule have ended; None: not known.
    """

    rule: str
    name: str
    revisions: Sequence[RowRevisionRow]
    last: int
    boundary: datetime | None


@dataclass(frozen=True)
class CommandEffect:
    """What a command has changed; the fields of `recall.ledger.Effect`."""

    recalls: int
    chunks_left: int
    seconds_before: float | None
    seconds_after: float | None
    unanswered: int = 0


@dataclass(frozen=True)
class Command:
    """A command, and its effect; None until a recall process has executed it."""

    number: int
    command: Verb
    target: Mapping[str, Any]
    effect: CommandEffect | None


@dataclass(frozen=True, kw_only=True)
class RepeatedAnswer:
    """The outcome for the last revision of a recall; the fields of `recall.replay`.

    `equal`: None if inputs have expired. `appends`: by stream, how many appends existed when pieces
    were read (lowest, highest).
    """

    task: UUID
    recall: str
    rule: str
    version: str
    corpus: int | None
    model: int | None
    appends: Mapping[str, tuple[int, int]]
    revision: int
    equal: bool | None
    why: str | None
    answer: Sequence[Mapping[str, Any]]


@operation("GET", "/recalls", role="viewer")
def list_recalls(workspace: "LocalWorkspace", query: RecallQuery) -> RecallPage:
    """List recalls with state and progress, newest first."""
    gateway = TaskGateway(workspace.connection)
    _check_rule(workspace, query.rule)
    eid = None
    if query.event is not None:
        eid = find_event(workspace.connection, query.event)
    selection = TaskFilter(
        eid=eid,
        rule=query.rule,
        states=query.state,
        after=decode_cursor(query.cursor, datetime.fromisoformat, str, UUID),
    )
    tasks = gateway.list_newest(selection, limit=query.limit)
    following = next_cursor(
        tasks, query.limit, lambda task: (task.created_at, task.recall, task.id)
    )
    return RecallPage(tasks, following, gateway.count(selection) if query.count else None)


@operation("GET", "/recalls/{recall}", role="viewer")
def show_recall(workspace: "LocalWorkspace", recall: IdPrefix) -> TaskSummaryRow:
    """Show the state and progress of a recall."""
    selection = TaskFilter(id=_find_recall(workspace, recall))
    return TaskGateway(workspace.connection).list_newest(selection, limit=1)[0]


@operation("GET", "/recalls/{recall}/revisions", role="viewer")
def list_revisions(
    workspace: "LocalWorkspace", recall: IdPrefix, query: RevisionQuery
) -> list[RecallRevision]:
    """List the answers of a recall in the order of their numbers."""
    return read_revisions(
        workspace.connection,
        _find_recall(workspace, recall),
        after=query.after,
        limit=query.limit,
    )


@operation("GET", "/row-revisions/{stream:path}", role="viewer")
def list_row_revisions(
    workspace: "LocalWorkspace", stream: str, query: RevisionQuery
) -> RowRevisionPage:
    """List the row revisions of a recall or stage: NAME, ALERT/NAME or GROUP/ALERT/NAME.

    NAME may also be the name of its stream outside its rule. Empty for one of a deployed rule
    without revisions.
    """
    from recall.errors import UnknownStream
    from recall.ledger import read_revisions as read_row_revisions

    connection = workspace.connection
    name = stream if "/" in stream else _find_by_outside_name(workspace, stream) or stream
    try:
        batch = read_row_revisions(
            connection, open_storage(workspace.settings), name, query.after, query.limit
        )
    except UnknownStream as error:
        outputs = _find_deployed_outputs(workspace, name)
        if len(outputs) != 1 or RowRevisionGateway(connection).find_streams(name):
            raise NotFound(str(error)) from error
        rule, output = outputs[0].rsplit("/", 1)
        return RowRevisionPage(rule, output, [], query.after, None)
    return RowRevisionPage(**vars(batch))


def _find_by_outside_name(workspace: "LocalWorkspace", name: str) -> str | None:
    """The recall or stage GROUP/ALERT/NAME whose stream has a name outside its rule."""
    from moirae.deployments import RuleRegistry

    for definition in RuleRegistry(workspace.connection).rules_with_recalls():
        for output, outside_name in definition.outputs.items():
            if outside_name is not None and outside_name.lower() == name.lower():
                return f"{definition.name}/{output}"
    return None


def _find_deployed_outputs(workspace: "LocalWorkspace", name: str) -> list[str]:
    """The recalls and stages GROUP/ALERT/NAME of deployed rules that a name may mean."""
    from moirae.deployments import RuleRegistry

    outputs = []
    for definition in RuleRegistry(workspace.connection).rules_with_recalls():
        for output in definition.outputs:
            full_name = f"{definition.name}/{output}"
            if full_name == name or full_name.endswith(f"/{name}"):
                outputs.append(full_name)
    return outputs


@operation("POST", "/commands", role="operator")
def submit(workspace: "LocalWorkspace", body: CommandBody) -> Command:
    """Cancel, finalize, accelerate or refine recalls. A recall process executes the command."""
    from recall.errors import CommandKeyConflict
    from recall.ledger.commands import Target, fetch_effect, submit_command

    connection = workspace.connection
    if body.id is None and body.rule is None and body.older_than is None:
        raise UsageError(f"{body.command}: nothing selected: give an ID, a rule or an age")
    _check_rule(workspace, body.rule)
    target = Target(rule=body.rule)
    if body.id is not None:
        match = find_event_or_recall(connection, body.id)
        if match.kind == "event":
            target = Target(eid=str(match.id), rule=body.rule)
        else:
            target = Target(task=str(match.id), rule=body.rule)
    try:
        number = submit_command(
            connection,
            body.key or str(uuid4()),
            body.command,
            target,
            workspace.author,
            body.older_than,
        )
    except CommandKeyConflict as error:
        raise Conflict(str(error)) from error
    effect = fetch_effect(connection, number)
    described = None if effect is None else CommandEffect(**vars(effect))
    return Command(number, body.command, target.to_json(), described)


@operation("GET", "/commands/{number}", role="viewer")
def show_command(workspace: "LocalWorkspace", number: int) -> Command:
    """Show a command on recalls, and its effect once it has been executed."""
    row = None
    if 0 < number < 1 << 63:
        row = CommandGateway(workspace.connection).get(number)
    if row is None:
        raise NotFound(f"no command {number}")
    target = {name: value for name, value in row.target.items() if name not in ("before", "older")}
    effect = None if row.effect is None else CommandEffect(**row.effect)
    return Command(row.id, row.command, target, effect)  # type: ignore[arg-type]


@operation("POST", "/events/{event}/repeat", role="operator", changes=False, in_child=True)
def repeat_answers(workspace: "LocalWorkspace", event: IdPrefix) -> list[RepeatedAnswer]:
    """Compute the last answers about an event, or of a recall, again and compare them."""
    from moirae.inspect import repeat_last_answers

    match = find_event_or_recall(workspace.connection, event)
    answers = repeat_last_answers(workspace.settings, workspace.connection, match.id)
    if not answers:
        raise NotFound(f"{event!r} has no answer to repeat")
    return [RepeatedAnswer(**vars(answer)) for answer in answers]


def read_revisions(
    connection: sql.Connection, recall: UUID, *, after: int, limit: int
) -> list[RecallRevision]:
    """The revisions of a recall after a number, in order."""
    rows = ChangeGateway(connection).list_revisions_after(recall, after, limit=limit)
    return [describe_revision(connection, row) for row in rows]


def describe_revision(connection: sql.Connection, row: RevisionRow) -> RecallRevision:
    """A stored revision, with the past events of its hits."""
    from moirae.inspect.past_events import make_hits
    from recall.query import order_columns

    rows = None
    hits = None
    estimates = None
    if row.answer is None:  # left out
        pass
    elif row.kind == "similar":
        hits = make_hits(connection, row.eid, row.answer)
    elif row.sql is not None:
        rows = order_columns(row.sql, row.answer)
        estimates = order_columns(row.sql, row.estimates or [])
    return RecallRevision(
        recall=row.task,
        eid=row.eid,
        rule=row.rule,
        name=row.recall,
        kind=row.kind,
        number=row.number,
        final=row.final,
        coverage=row.coverage,
        rows=rows,
        hits=hits,
        estimates=estimates,
        comparable=row.comparable,
        match=row.match,
        forecast=row.forecast,
        error=None,
        at=row.at,
    )


def describe_stage(row: ChangedStageRow) -> RecallRevision:
    """The present rows of a stage."""
    return RecallRevision(
        recall=None,
        eid=row.eid,
        rule=row.rule,
        name=row.name,
        kind="stage",
        number=row.revision,
        final=row.state != "running",
        coverage=None,
        rows=row.rows,
        hits=None,
        estimates=None,
        comparable=None,
        match=None,
        forecast=None,
        error=row.error,
        at=row.at,
    )


def _find_recall(workspace: "LocalWorkspace", prefix: str) -> UUID:
    match = find_event_or_recall(workspace.connection, prefix)
    if match.kind != "recall":
        raise NotFound(f"{prefix!a} is the ID of an event: see the recalls of the event")
    return match.id


def _check_rule(workspace: "LocalWorkspace", rule: str | None) -> None:
    """Raise `NotFound` for a rule that is not deployed and has no recalls."""
    if rule is not None and not TaskGateway(workspace.connection).rule_exists(rule):
        raise NotFound(f"no rule {rule!r} is deployed or has recalls")
