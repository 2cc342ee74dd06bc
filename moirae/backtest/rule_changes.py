"""What other versions of rules would change, rule by rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from archiver.times import Micros, from_micros
from moirae.backtest.alerts import BacktestAlert
from moirae.backtest.archive import BacktestArchive
from moirae.backtest.run import Backtest, evaluate_together, plan_backtest, plan_together
from moirae.backtest.versions import VersionChange, compare_versions
from moirae.evaluation.plan import ActiveRule


@dataclass(frozen=True)
class RuleChange:
    """What a version of a rule changes over a range. `before`: the version before; None: it is new.

    `alerts`: that are shown. `problem`: why there are no figures.
    """

    rule: str
    version: str
    before: str | None
    start: datetime | None = None
    end: datetime | None = None
    alerts: Sequence[BacktestAlert] = ()
    change: VersionChange | None = None
    problem: str | None = None


def find_rule_changes(
    archive: BacktestArchive,
    rules: Sequence[ActiveRule],
    rules_before: Mapping[str, ActiveRule],
    choose_start: Callable[[Micros], Micros],
) -> list[RuleChange]:
    """The rules that are new or have another version, with what that changes."""
    changes: list[RuleChange] = []
    for rule in rules:
        before = rules_before.get(rule.name)
        if before is not None and before.version == rule.version:
            continue
        change = RuleChange(rule.name, rule.version, None if before is None else before.version)
        changes.append(_evaluate(archive, change, rule, before, choose_start))
    return changes


def _evaluate(
    archive: BacktestArchive,
    change: RuleChange,
    rule: ActiveRule,
    before: ActiveRule | None,
    choose_start: Callable[[Micros], Micros],
) -> RuleChange:
    versions = [rule] if before is None else [rule, before]
    if any(version.reads_revisions for version in versions):
        return replace(change, problem="it reads streams of recalls or stages, which have no past")
    ranges = [plan_backtest(version, archive, choose_start, None) for version in versions]
    planned = plan_together([item for item in ranges if item is not None])
    if planned is None or None in ranges:
        return replace(change, problem="the archive has no settled rows of its streams")
    tests = [Backtest(version, archive, planned) for version in versions]
    for _ in evaluate_together(tests):
        pass
    errors = [test.error for test in tests if test.error is not None]
    if errors:
        return replace(change, problem=str(errors[0]).strip().partition("\n")[0])
    alerts = tests[0].list_alerts()
    alerts_before = [] if before is None else tests[1].list_alerts()
    return replace(
        change,
        start=from_micros(planned.start),
        end=from_micros(min(planned.end, planned.newest + 1)),
        alerts=[alert for alert in alerts if alert.is_shown],
        change=compare_versions(alerts_before, alerts),
    )
