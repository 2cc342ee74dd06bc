"""Back-tests of rule files over the archive of the server, and why alerts fired."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from moirae.config import parse_duration
from moirae.errors import NotFound, UsageError
from moirae.services.models import Arguments, IdPrefix
from moirae.services.operation import allow_queries, operation
from moirae.services.operations.alerts import find_alert
from moirae.services.operations.rules import RuleDocument, write_rule_files

if TYPE_CHECKING:
    from moirae.backtest import BacktestAlert, RuleChange
    from moirae.rules import Definition
    from moirae.services.workspace import LocalWorkspace

_MAX_FILES = 200
_MAX_ALERTS = 20  # of each kind that are listed


class RuleVersions(Arguments):
    """Rule files of a change, and those before it."""

    files: list[RuleDocument] = Field(max_length=_MAX_FILES, description="Rule files.")
    base: list[RuleDocument] = Field(
        max_length=_MAX_FILES, description="The rule files before the change."
    )
    last: str = Field(
        "7d", max_length=20, description="Event time before the newest row, such as `7d`."
    )


@dataclass(frozen=True)
class ChangedAlert:
    """An alert that a change brings, takes away or moves."""

    fired_at: datetime | None
    ends_at: datetime | None
    labels: dict[str, str]


@dataclass(frozen=True)
class ChangedRule:
    """What a change makes of a rule. `before`: the version before; None: it is new.

    `alerts`, `new`, `gone`, `moved`, `unchanged`: counts of alerts. `new_alerts`, `gone_alerts`: the
    first ones. `problem`: why there are no figures.
    """

    rule: str
    version: str
    before: str | None
    start: datetime | None
    end: datetime | None
    alerts: int
    new: int
    gone: int
    moved: int
    unchanged: int
    new_alerts: Sequence[ChangedAlert]
    gone_alerts: Sequence[ChangedAlert]
    problem: str | None


@operation("POST", "/rules/backtest", role="operator", changes=False, in_child=True)
def backtest_change(workspace: "LocalWorkspace", body: RuleVersions) -> list[ChangedRule]:
    """Show what changed rule files would have changed of the alerts over the archive.

    Rules whose version stays are left out. Nothing is stored, and nobody is told.
    """
    from archiver.spark import open_session
    from archiver.times import duration_to_micros
    from moirae.backtest import find_rule_changes, open_archive
    from moirae.deployments import check_rule_files
    from moirae.evaluation.plan import ActiveRule

    if not body.files:
        return []
    settings = workspace.settings
    try:
        duration = duration_to_micros(parse_duration(body.last))
    except ValueError as error:
        raise UsageError(f"last: {error}") from error
    warehouse = Path(settings.home) / "warehouse-backtest"
    with open_session("moirae rules backtest", warehouse) as spark:
        versions: list[list[ActiveRule]] = []
        for files in (body.files, body.base):
            definitions: list[Definition] = []
            if files:
                with write_rule_files(files) as paths:
                    definitions, _ = check_rule_files(lambda: spark, settings, paths)
            versions.append(
                [
                    ActiveRule.of_workspace(definition, settings)
                    for definition in definitions
                    if definition.spec.enabled and not definition.spec.external
                ]
            )
        archive = open_archive(settings, workspace.connection, spark.newSession())
        changes = find_rule_changes(
            archive,
            versions[0],
            {rule.name: rule for rule in versions[1]},
            lambda newest: newest - duration,
        )
        return list(map(_describe, changes))


@allow_queries
@operation("GET", "/alerts/{alert}/why", role="operator", in_child=True)
def explain_alert(workspace: "LocalWorkspace", alert: IdPrefix) -> dict[str, Any]:
    """Explain why an alert fired, or why it would not now: its rule stage by stage.

    The applied version of the rule is evaluated over the rows that it reads for the time at which the
    alert fired.
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
    with open_session("moirae rules why", Path(settings.home) / "warehouse-backtest") as spark:
        archive = open_archive(settings, connection, spark.newSession())
        explanation = explain_alert(rule, archive, key, to_micros(at))
    silences = {str(silence.id): silence for silence in list_silences(connection, at)}
    return asdict(add_routes(explanation, settings, silences, at))


def _describe(change: "RuleChange") -> ChangedRule:
    difference = change.change
    new = () if difference is None else difference.new
    gone = () if difference is None else difference.gone
    return ChangedRule(
        rule=change.rule,
        version=change.version,
        before=change.before,
        start=change.start,
        end=change.end,
        alerts=len(change.alerts),
        new=len(new),
        gone=len(gone),
        moved=0 if difference is None else len(difference.moved),
        unchanged=0 if difference is None else difference.unchanged,
        new_alerts=_describe_alerts(new),
        gone_alerts=_describe_alerts(gone),
        problem=change.problem,
    )


def _describe_alerts(alerts: "Sequence[BacktestAlert]") -> list[ChangedAlert]:
    return [
        ChangedAlert(alert.fired_at, alert.ends_at, dict(alert.labels))
        for alert in alerts[:_MAX_ALERTS]
    ]
