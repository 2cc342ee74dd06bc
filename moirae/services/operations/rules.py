"""Check, apply and inspect rules."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

import sql
from archiver.time_range import TimeRange
from archiver.times import to_micros
from moirae.config import Settings
from moirae.errors import Conflict, NotFound, Problem, ProblemsError, UsageError
from moirae.runtime.storage import find_declaration_problems
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation
from sql.archive import ChunkGateway, StreamGateway, SummaryGateway
from sql.recalls import TaskGateway
from sql.rules import (
    DeploymentGateway,
    DeploymentRow,
    LostVerdictGateway,
    RuleCandidateGateway,
    RuleErrorGateway,
    RuleFileGateway,
    RuleGateway,
)

if TYPE_CHECKING:
    from moirae.deployments import DeploymentStep
    from moirae.inspect import HistoryCosts
    from moirae.rules import Definition
    from moirae.services.workspace import LocalWorkspace

_MAX_FILES = 200
_MAX_RULES = 10_000  # that a request lists with a limit
_MAX_LOST_ROWS = 20  # newest rows without a verdict of a rule
_MAX_CONTENT = 1 << 20  # characters of a rule file

WATCHED_FILES = (
    "the workspace applies its rule files itself: change these files, or set `watch_rules: false` "
    "in the workspace file"
)


class RuleDocument(Arguments):
    """A rule file. `content` absent: the file of this path on this machine."""

    name: str = Field(min_length=1, max_length=1_000, description="Name for messages.")
    content: str | None = Field(None, max_length=_MAX_CONTENT, description="Text of the file.")


class RuleFiles(Arguments):
    """Rule files."""

    files: list[RuleDocument] | None = Field(
        None,
        min_length=1,
        max_length=_MAX_FILES,
        description="Rule files; absent: those of the workspace.",
    )


class RuleNames(Arguments):
    """Names of rules."""

    rules: list[Name] = Field(
        min_length=1, max_length=1_000, description="Names, with or without their group."
    )


class RuleSelection(Arguments):
    """Which applied rules to list."""

    search: str | None = Field(
        None, min_length=1, max_length=200, description="Part of the name, in any case."
    )
    state: Literal["running", "quarantined", "disabled", "not started yet"] | None = Field(
        None, description="State of the rule."
    )
    reads: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Only rules that read this stream, derived stream or relation, anywhere.",
    )
    sort: Literal["name", "cost"] = Field(
        "name", description="Order: by name, or by the time of evaluation, most of it first."
    )
    limit: int | None = Field(
        None, ge=1, le=_MAX_RULES, description="Maximum number of rules; absent: all."
    )
    offset: int = Field(0, ge=0, le=1_000_000, description="Number of rules to skip.")


@dataclass(frozen=True)
class AppliedRule:
    """An applied rule. `settled_to`: events before this event time are settled.

    `history`: progress through history; None before it starts. `lost`: rows without a verdict, as
    the rule exceeded its limits for them. `seconds`: that its evaluation took in the last hour, if it
    is noticeable; `recall_seconds`: all its recalls. `alerts`: that fired, of which `firing` still
    fire. `last_fired_at`: when the last one did.
    """

    rule: str
    version: str
    state: str
    settled_to: datetime | None
    error: str | None
    history: Mapping[str, Any] | None
    lost: int
    seconds: float
    last_fired_at: datetime | None
    firing: int
    alerts: int
    recalls: int
    recall_seconds: float


@dataclass(frozen=True)
class LostVerdict:
    """A row without a verdict. `ts`: its event time. `lost_at`: wall-clock time."""

    ts: datetime
    stream: str
    row: Mapping[str, Any]
    reason: str
    lost_at: datetime


@dataclass(frozen=True)
class RuleError:
    """An error of a rule, as `RuleErrorRow` without the rule."""

    version: str
    kind: str
    message: str
    event: Any
    times: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class RuleDetails:
    """An applied rule with its errors. `definition`: as stored.

    `lost`: the newest rows without a verdict.
    """

    name: str
    version: str
    state: str
    errors: Sequence[RuleError]
    lost: Sequence[LostVerdict]
    history: Mapping[str, Any] | None
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class RuleCheck:
    """The result of a check: the number of valid rules, errors and warnings, and notes.

    `workspace_warnings`: about the workspace file.
    """

    rules: int
    problems: Sequence[Problem]
    workspace_warnings: Sequence[Problem]
    notes: Sequence[Problem] = ()


@dataclass(frozen=True)
class RuleStep:
    """A step of a deployment: start, change, update, stop or stay, with the versions."""

    action: str
    rule: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class RuleChanges:
    """The steps of a deployment, rules whose quarantine ended, and warnings about the files."""

    steps: Sequence[RuleStep]
    resumed: Sequence[str]
    warnings: Sequence[Problem]


@dataclass(frozen=True)
class ResumedRule:
    """A rule, and whether it was in quarantine."""

    rule: str
    resumed: bool


@dataclass(frozen=True)
class _CheckedFiles:
    definitions: "Sequence[Definition]"
    warnings: Sequence[Problem]
    digest: str
    """Of the rule files of the workspace."""


@operation("GET", "/rules", role="viewer")
def list_rules(workspace: "LocalWorkspace", query: RuleSelection) -> list[AppliedRule]:
    """List applied rules with their state, settled time and progress through history."""
    from archiver.times import optional_datetime
    from moirae.history import list_view_progress

    history = list_view_progress(workspace.connection)
    rows = RuleGateway(workspace.connection).list_page(
        search=query.search,
        state=query.state,
        by_cost=query.sort == "cost",
        limit=query.limit,
        offset=query.offset,
        names=None if query.reads is None else _find_readers(workspace, query.reads.lower()),
    )
    return [
        AppliedRule(
            rule=row.rule,
            version=row.version,
            state=row.state,
            settled_to=optional_datetime(row.settled_to),
            error=row.error,
            history=history.get(row.rule),
            lost=row.lost,
            seconds=round(row.seconds, 3),
            last_fired_at=row.last_fired_at,
            firing=row.firing,
            alerts=row.alerts,
            recalls=row.recalls,
            recall_seconds=round(row.recall_seconds, 3),
        )
        for row in rows
    ]


def _find_readers(workspace: "LocalWorkspace", name: str) -> list[str]:
    """The applied rules that read a table, given in lower case."""
    from moirae.deployments import RuleRegistry
    from moirae.rules import find_tables_read, may_read

    readers = []
    for definition in RuleRegistry(workspace.connection).desired_rules():
        rule = definition.rule
        if may_read(rule, name) and name in find_tables_read(rule):
            readers.append(definition.name)
    return readers


@operation("GET", "/rules/{rule:path}", role="viewer")
def show_rule(workspace: "LocalWorkspace", rule: Name) -> RuleDetails:
    """Show an applied rule with its definition, errors and progress through history."""
    from moirae.deployments import RuleRegistry
    from moirae.history import list_view_progress

    connection = workspace.connection
    name = find_rule(RuleGateway(connection).list_names(), rule)
    definitions, damaged = RuleRegistry(connection).load_stored([name])
    if damaged:
        raise NotFound(f"rule {name!r}: {damaged[0].reason}")
    (definition,) = definitions
    errors = []
    for row in RuleErrorGateway(connection).list_newest(definition.name):
        fields = asdict(row)
        del fields["rule"]
        errors.append(RuleError(**fields))
    return RuleDetails(
        name=definition.name,
        version=definition.version,
        state=_rule_state(definition, _load_deployments(connection).get(definition.name)),
        errors=errors,
        lost=[
            LostVerdict(row.ts, row.stream, row.row, row.reason, row.lost_at)
            for row in LostVerdictGateway(connection).list_newest(definition.name, _MAX_LOST_ROWS)
        ],
        history=list_view_progress(connection).get(definition.name),
        definition=definition.to_json(),
    )


@operation("GET", "/explain/{rule:path}", role="viewer")
def explain(workspace: "LocalWorkspace", rule: Name) -> dict[str, Any]:
    """Explain how a rule is executed: engine, shared query, recall plans. Durations in seconds."""
    from moirae.deployments import RuleRegistry
    from moirae.inspect import explain_rule, select_explained_rules

    event_queries = RuleGateway(workspace.connection).list_event_queries()
    name = find_rule(list(event_queries), rule)
    names = select_explained_rules(event_queries, name)
    definitions, damaged = RuleRegistry(workspace.connection).load_stored(names)
    for stored in damaged:
        if stored.rule == name:
            raise NotFound(f"rule {name!r}: {stored.reason}")
    summaries = SummaryGateway(workspace.connection).list_all()
    costs = _load_costs(workspace.connection, name)
    explanation = explain_rule(workspace.settings, definitions, name, summaries, costs)
    if "necessary" in explanation["evaluation"]:
        counts = RuleCandidateGateway(workspace.connection).get_last_hour(name)
        explanation["evaluation"]["last_hour"] = asdict(counts)
    return explanation


def _load_costs(connection: sql.Connection, rule: str) -> "HistoryCosts | None":
    """None: no row is archived yet."""
    from moirae.inspect import HistoryCosts
    from recall.requests import ChunkRange

    times = [row.newest for row in StreamGateway(connection).list_all() if row.newest is not None]
    if not times:
        return None
    chunks = []
    for row in ChunkGateway(connection).list_all():
        if row.state != "expired":
            chunks.append(ChunkRange(row.id, TimeRange(row.from_ts, row.to_ts)))
    measured = {row.recall: row for row in TaskGateway(connection).measured_recalls(rule)}
    return HistoryCosts(chunks, to_micros(max(times)) + 1, measured)


@operation("POST", "/rules/check", role="operator", changes=False, in_child=True)
def check(workspace: "LocalWorkspace", body: RuleFiles) -> RuleCheck:
    """Check rule files: errors and warnings with their positions."""
    return run_check(workspace.settings, body, allow_paths=workspace.via == "cli")


@operation("POST", "/rules/diff", role="operator", changes=False, in_child=True)
def diff(workspace: "LocalWorkspace", body: RuleFiles) -> RuleChanges:
    """Show what applying rule files would change, including rules that stay."""
    from moirae.deployments import RuleRegistry

    settings = workspace.settings
    checked = _check_files(settings, body, allow_paths=workspace.via == "cli")
    steps = RuleRegistry(workspace.connection).plan_changes(checked.definitions)
    return _describe_changes(settings, steps, [], checked.warnings)


def run_check(settings: Settings, body: RuleFiles, *, allow_paths: bool) -> RuleCheck:
    """Check rule files; needs no database. `allow_paths`: files may be named without content.

    The result of a check of the same files over the same columns is not computed again.
    """
    column_problems = tuple(find_declaration_problems(settings))
    try:
        count, findings = _count_rules(settings, body, allow_paths=allow_paths)
    except ProblemsError as error:
        return RuleCheck(0, (*column_problems, *error.problems), settings.warnings)
    notes = [problem for problem in findings if problem.severity == "note"]
    warnings = [problem for problem in findings if problem.severity != "note"]
    if column_problems:
        return RuleCheck(0, (*column_problems, *warnings), settings.warnings, notes)
    return RuleCheck(count, warnings, settings.warnings, notes)


def _count_rules(
    settings: Settings, body: RuleFiles, *, allow_paths: bool
) -> tuple[int, Sequence[Problem]]:
    """The number of rules in files, warnings and notes. Raises `ProblemsError`."""
    from moirae.deployments import find_checked_files, store_checked_files
    from moirae.lints import find_lints

    with _write_files(body.files or [], allow_paths=allow_paths) as names:
        checked = find_checked_files(settings, list(names))
        if checked is None:
            with _rename_problems(names):
                definitions, warnings = _check_paths(settings, list(names))
                warnings = [*warnings, *find_lints(settings, definitions)]
            checked = len(definitions), warnings
            store_checked_files(settings, list(names), *checked)
        count, warnings = checked
        return count, [_rename(problem, names) for problem in warnings]


def _prepare_apply(workspace: "LocalWorkspace", body: RuleFiles) -> _CheckedFiles:
    if workspace.via == "api" and workspace.settings.watch_rules:
        raise Conflict(WATCHED_FILES)
    return _check_files(workspace.settings, body, allow_paths=workspace.via == "cli")


@operation("POST", "/rules/apply", role="admin", in_child=True, prepare=_prepare_apply)
def apply(
    workspace: "LocalWorkspace", body: RuleFiles, prepared: _CheckedFiles | None = None
) -> RuleChanges:
    """Deploy the rules of files. A running workspace picks up the changes.

    Applying a rule again ends its quarantine. Refused while `watch_rules` is on.
    """
    from moirae.deployments import RuleRegistry

    assert prepared is not None
    registry = RuleRegistry(workspace.connection)
    steps = registry.apply(prepared.definitions)
    resumed = registry.resume([definition.name for definition in prepared.definitions])
    if body.files is None:
        RuleFileGateway(workspace.connection).record_check(0, prepared.digest, None)
    return _describe_changes(workspace.settings, steps, resumed, prepared.warnings)


@operation("POST", "/rules/resume", role="admin")
def resume(workspace: "LocalWorkspace", body: RuleNames) -> list[ResumedRule]:
    """End the quarantine of rules. They are evaluated from where they stopped."""
    from moirae.deployments import RuleRegistry

    registry = RuleRegistry(workspace.connection)
    applied = RuleGateway(workspace.connection).list_names()
    names = [find_rule(applied, rule) for rule in body.rules]
    resumed = registry.resume(names)
    return [ResumedRule(name, name in resumed) for name in names]


def find_rule(names: Sequence[str], rule: str) -> str:
    """The name of the rule with a name, which may lack the group. Raises `UsageError`."""
    matches = [name for name in names if rule in (name, _short_name(name))]
    if len(matches) > 1:
        raise UsageError(f"rule {rule!r} is ambiguous: {', '.join(matches)}")
    if not matches:
        suggestions = difflib.get_close_matches(rule, [*names, *map(_short_name, names)], n=1)
        if suggestions:
            raise NotFound(f"no rule {rule!r}, did you mean {suggestions[0]}?")
        raise NotFound(f"no rule {rule!r}: see `moirae rules list`")
    return matches[0]


def _short_name(name: str) -> str:
    """The name without the group."""
    return name.split("/")[1]


def _load_deployments(connection: sql.Connection) -> dict[str, DeploymentRow]:
    """The versions that run or are quarantined, by rule."""
    deployments = DeploymentGateway(connection).list_active()
    return {deployment.rule: deployment for deployment in deployments}


def _rule_state(definition: "Definition", deployment: DeploymentRow | None) -> str:
    if not definition.spec.enabled:
        return "disabled"
    if deployment is None or deployment.version != definition.version:
        return "not started yet"
    return deployment.state


def _describe_changes(
    settings: Settings,
    steps: "Sequence[DeploymentStep]",
    resumed: Sequence[str],
    warnings: Sequence[Problem],
) -> RuleChanges:
    return RuleChanges(
        [RuleStep(**vars(step)) for step in steps], resumed, [*settings.warnings, *warnings]
    )


def _check_files(settings: Settings, body: RuleFiles, *, allow_paths: bool) -> _CheckedFiles:
    """The rules of files and the warnings about them. Raises `ProblemsError`."""
    from moirae.deployments import compute_digest

    digest = compute_digest(settings.find_rule_files())
    with _write_files(body.files or [], allow_paths=allow_paths) as names, _rename_problems(names):
        definitions, warnings = _check_paths(settings, list(names))
    return _CheckedFiles(definitions, [_rename(problem, names) for problem in warnings], digest)


@contextmanager
def write_rule_files(files: Sequence[RuleDocument]) -> Iterator[list[Path]]:
    """Files with given contents for the duration of a block. Problems have the names of the files.

    Raises `UsageError` for a file without content.
    """
    with _write_files(files, allow_paths=False) as names, _rename_problems(names):
        yield list(names)


@contextmanager
def _write_files(files: Sequence[RuleDocument], *, allow_paths: bool) -> Iterator[dict[Path, str]]:
    """Files with the given contents for the duration of a block; their names by path."""
    names: dict[Path, str] = {}
    with TemporaryDirectory(prefix="moirae-rules-") as folder:
        for number, file in enumerate(files):
            if file.content is not None:
                path = Path(folder) / f"{number}.yaml"
                path.write_text(file.content, encoding="utf-8", errors="surrogateescape")
            elif allow_paths:
                path = Path(file.name)
            else:
                raise UsageError(f"{file.name}: the content of the file is missing")
            names[path] = file.name
        yield names


@contextmanager
def _rename_problems(names: Mapping[Path, str]) -> Iterator[None]:
    """Problems of written files have the names of the files."""
    try:
        yield
    except ProblemsError as error:
        raise ProblemsError(_rename(problem, names) for problem in error.problems) from error


def _rename(problem: Problem, names: Mapping[Path, str]) -> Problem:
    """The problem of a written file under the file's name."""
    return replace(problem, file=names.get(Path(problem.file), problem.file))


def _check_paths(
    settings: Settings, files: Sequence[Path]
) -> "tuple[list[Definition], list[Problem]]":
    from archiver.spark import session_on_demand
    from moirae.deployments import check_rule_files, select_rule_files

    paths = select_rule_files(settings, files)
    warehouse = Path(settings.home) / "warehouse"
    with session_on_demand("moirae rules", warehouse) as start_spark:
        return check_rule_files(start_spark, settings, paths)
