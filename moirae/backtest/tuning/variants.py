"""Rules with other values of their parameters, and what each value would have done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from moirae.backtest.reports import KnownIncident, count_caught
from moirae.backtest.run import Backtest
from moirae.backtest.tuning.parameter_values import ParameterValue
from moirae.config import Settings
from moirae.errors import MoiraeError, ProblemsError
from moirae.evaluation.plan import ActiveRule
from moirae.rules import Definition, Rule, RuleSet
from moirae.rules.checks import StartSpark, check_rules

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class ValueReport:
    """What a rule with some values of its parameters would have done.

    `is_current`: the values are those of the rule file. `alerts`: that are shown. `hidden`: by
    `where`. `delay`: median seconds from the start of an incident to its first alert; None: none was
    caught. `error`: why there are no figures.
    """

    values: Mapping[str, ParameterValue]
    is_current: bool
    version: str
    events: int = 0
    alerts: int = 0
    alerts_per_day: float = 0.0
    hidden: int = 0
    caught: Sequence[str] | None = None
    missed: Sequence[str] | None = None
    false_alerts: int | None = None
    delay: float | None = None
    error: str | None = None


def check_variants(
    start_spark: StartSpark,
    settings: Settings,
    rule: Rule,
    variants: Sequence[Mapping[str, ParameterValue]],
) -> list[ActiveRule]:
    """The rule with each of some values of its parameters. Raises `ProblemsError`.

    Stages are left out: alerts do not depend on them.
    """
    rules = [_without_outputs(rule.with_parameters(values)) for values in variants]
    # Checked together, under names of their own.
    numbered = [
        replace(
            variant, spec=variant.spec.model_copy(update={"alert": f"{rule.spec.alert}-{number}"})
        )
        for number, variant in enumerate(rules)
    ]
    definitions, problems = check_rules(
        start_spark, settings, RuleSet(tuple(numbered), rule.derived)
    )
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ProblemsError(errors)
    return [
        ActiveRule.of_workspace(_rename(definition, variant), settings)
        for definition, variant in zip(definitions, rules, strict=True)
    ]


def _without_outputs(rule: Rule) -> Rule:
    """The rule without streams that other rules could read."""
    recalls = {
        name: recall.model_copy(update={"stream": None})
        for name, recall in rule.spec.recall.items()
    }
    return replace(rule, spec=rule.spec.model_copy(update={"then": (), "recall": recalls}))


def _rename(definition: Definition, rule: Rule) -> Definition:
    return replace(definition, rule=replace(definition.rule, spec=rule.spec))


def report_value(
    test: Backtest,
    values: Mapping[str, ParameterValue],
    is_current: bool,
    span: tuple[datetime, datetime],
    incidents: Sequence[KnownIncident] | None,
) -> ValueReport:
    """`span`: from when to when rows were there to be tested."""
    report = ValueReport(values, is_current, test.rule.version)
    if test.error is not None:
        return replace(report, error=_describe(test.error))
    alerts = test.fold_alerts()
    shown = len(alerts.shown)
    figures: dict[str, Any] = {}
    if incidents is not None:
        counts = count_caught(incidents, alerts)
        delays = [delay.total_seconds() for delay in counts.delays]
        figures = {
            "caught": counts.caught,
            "missed": counts.missed,
            "false_alerts": counts.false_alerts,
            "delay": median(delays) if delays else None,
        }
    start, end = span
    return replace(
        report,
        events=test.count_events(),
        alerts=shown,
        alerts_per_day=shown / max((end - start) / _DAY, 1e-9),
        hidden=int(alerts.is_hidden.sum()),
        **figures,
    )


def _describe(error: Exception) -> str:
    if isinstance(error, MoiraeError):
        return str(error)
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
