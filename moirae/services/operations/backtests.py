"""Back-tests of rule files over the archive of the server, and why alerts fired."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from pydantic import Field, TypeAdapter

from moirae.config import parse_duration
from moirae.errors import MoiraeError, NotFound, Problem, RequestRejected, UsageError
from moirae.services.models import Arguments, IdPrefix, Name
from moirae.services.operation import allow_queries, operation
from moirae.services.operations.alerts import find_alert
from moirae.services.operations.rules import RuleDocument
from sql.processes import SignalGateway
from sql.rules import BacktestGateway, BacktestRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

_MAX_FILES = 200
_MAX_OPEN = 20  # back-tests that wait or run
_MIN_AGE = timedelta(days=1)  # wall-clock time for which results can be read
_NO_RECALL_PROCESS = (
    "no recall process is running, so rules are not evaluated: start `moirae up` or "
    "`moirae run recall` on the machine of the server"
)
_TOO_MANY_RETRY = 10  # seconds after which a client may retry


class BacktestBody(Arguments):
    """What is evaluated, and what it is compared with."""

    files: list[RuleDocument] = Field(max_length=_MAX_FILES, description="Rule files.")
    base: list[RuleDocument] | None = Field(
        None,
        max_length=_MAX_FILES,
        description="The rule files before the change; absent: `files` is a draft of one rule, "
        "which is compared with the applied rule of its name.",
    )
    rule: Name | None = Field(
        None, description="Applied rule that a draft changes; absent: a draft of a new one."
    )
    last: str = Field(
        "7d", max_length=20, description="Event time before the newest row, such as `7d`."
    )
    check_only: bool = Field(False, description="Check the files, and evaluate nothing.")


AlertChange = Literal["new", "gone", "moved", "unchanged"]


@dataclass(frozen=True)
class ChangedAlert:
    """An alert of a version. `change`: what the versions make of it.

    `rows`: of new and gone alerts, queries for the rows that decided them, by stream.
    """

    change: AlertChange
    starts_at: datetime
    fired_at: datetime | None
    ends_at: datetime | None
    labels: dict[str, str]
    rows: dict[str, str]


@dataclass(frozen=True)
class ChangedRule:
    """What a change makes of a rule. `before`: the version before; None: it is new.

    `evaluated_from`: alerts that start from here on are known; later than `start` while the rest is
    evaluated. `alerts`, `new`, `gone`, `moved`, `unchanged`: counts of alerts that are shown;
    `hidden`: by `where`. `listed`, `listed_before`: the newest alerts of the rule, and of the version
    before. `problem`: why there are no figures. `notes`: what is not evaluated.
    """

    rule: str
    version: str
    before: str | None
    start: datetime | None = None
    end: datetime | None = None
    evaluated_from: datetime | None = None
    events: int = 0
    alerts: int = 0
    hidden: int = 0
    new: int = 0
    gone: int = 0
    moved: int = 0
    unchanged: int = 0
    listed: Sequence[ChangedAlert] = ()
    listed_before: Sequence[ChangedAlert] = ()
    problem: str | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class StartedBacktest:
    """A back-test that was started."""

    id: UUID


@dataclass(frozen=True)
class BacktestStatus:
    """How far a back-test is. `progress`: 0 to 1. `rules`: what was found up to now.

    `problems`: errors, warnings and notes of the files. With an error nothing is evaluated. Rules that
    stay as they are, are left out.
    """

    id: UUID
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    progress: float
    problems: Sequence[Problem]
    rules: Sequence[ChangedRule]
    error: str | None
    requested_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True)
class BacktestResult:
    """What is stored of a back-test up to now."""

    problems: Sequence[Problem] = ()
    rules: Sequence[ChangedRule] = ()


_RESULTS = TypeAdapter(BacktestResult)


def parse_last(last: str) -> timedelta:
    """The span of a request. Raises `UsageError`."""
    try:
        return parse_duration(last)
    except ValueError as error:
        raise UsageError(f"last: {error}") from error


@operation("POST", "/backtests", role="operator", changes=False)
def start(workspace: "LocalWorkspace", body: BacktestBody) -> StartedBacktest:
    """Start a back-test of rule files over the archive. Nobody is told of its alerts.

    A child of a recall process evaluates it with a lower priority, newest day first. What was found
    can be read meanwhile, and for a day after its end.
    """
    from moirae.queries import has_recall_process

    parse_last(body.last)
    if not has_recall_process(workspace.connection):
        raise MoiraeError(_NO_RECALL_PROCESS)
    gateway = BacktestGateway(workspace.connection)
    gateway.delete_old(_MIN_AGE)
    if gateway.count_open() >= _MAX_OPEN:
        raise RequestRejected(429, f"{_MAX_OPEN} back-tests wait already", _TOO_MANY_RETRY)
    backtest = uuid4()
    gateway.add(backtest, workspace.author, body.model_dump(mode="json"))
    SignalGateway(workspace.connection).notify_backtests()
    return StartedBacktest(backtest)


@operation("GET", "/backtests/{backtest}", role="viewer")
def show(workspace: "LocalWorkspace", backtest: UUID) -> BacktestStatus:
    """Show how far a back-test is, and what it has found up to now."""
    return _describe(_find(workspace, backtest))


@operation("POST", "/backtests/{backtest}/cancel", role="operator", changes=False)
def cancel(workspace: "LocalWorkspace", backtest: UUID) -> BacktestStatus:
    """End a back-test with what was found. Has no effect on one that has ended."""
    _find(workspace, backtest)
    BacktestGateway(workspace.connection).cancel(backtest)
    SignalGateway(workspace.connection).notify_backtests()
    return _describe(_find(workspace, backtest))


def _find(workspace: "LocalWorkspace", backtest: UUID) -> BacktestRow:
    row = BacktestGateway(workspace.connection).get(backtest)
    if row is None:
        raise NotFound(f"no back-test {backtest}")
    return row


def _describe(row: BacktestRow) -> BacktestStatus:
    result = _RESULTS.validate_python(row.result or {})
    return BacktestStatus(
        id=row.id,
        state=row.state,
        progress=row.progress,
        problems=result.problems,
        rules=result.rules,
        error=row.error,
        requested_at=row.requested_at,
        ended_at=row.ended_at,
    )


class WhyQuery(Arguments):
    """Which time is explained."""

    at: datetime | None = Field(
        None, description="Event time, in UTC without a zone; absent: when the alert fired."
    )


@allow_queries
@operation("GET", "/alerts/{alert}/why", role="operator", in_child=True)
def explain_alert(workspace: "LocalWorkspace", alert: IdPrefix, query: WhyQuery) -> dict[str, Any]:
    """Explain why an alert fired, or why its rule did not at another time: the rule stage by stage.

    The applied version of the rule is evaluated over the rows of the alert's key that it reads for
    this time.
    """
    from archiver.spark import open_session
    from archiver.times import to_micros
    from moirae.backtest import open_archive
    from moirae.deployments import RuleRegistry
    from moirae.evaluation.plan import ActiveRule
    from moirae.notify import list_silences
    from moirae.why import add_routes, explain_alert, format_value

    settings, connection = workspace.settings, workspace.connection
    row = find_alert(connection, alert)
    definitions, _ = RuleRegistry(connection).load_stored([row.rule])
    if not definitions or definitions[0].spec.external:
        raise NotFound(f"no query of {row.rule} is applied that could explain the alert")
    rule = ActiveRule.of_workspace(definitions[0], settings)
    key = {name: format_value(value) for name, value in row.key.items()}
    at = row.fired_at or row.starts_at
    if query.at is not None:
        at = query.at if query.at.tzinfo is not None else query.at.replace(tzinfo=UTC)
    with open_session("moirae rules why", Path(settings.home) / "warehouse-backtest") as spark:
        archive = open_archive(settings, connection, spark.newSession())
        explanation = explain_alert(rule, archive, key, to_micros(at))
    silences = {str(silence.id): silence for silence in list_silences(connection, at)}
    return asdict(add_routes(explanation, settings, silences, at))
