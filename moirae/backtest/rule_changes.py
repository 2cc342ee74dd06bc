"""What another version of a rule would change: both are evaluated together, newest day first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.backtest.alert_columns import AlertColumns
from moirae.backtest.archive import BacktestArchive
from moirae.backtest.run import Backtest, evaluate_together, plan_backtest, plan_together
from moirae.backtest.slices import BacktestRange
from moirae.backtest.versions import VersionChange, compare_versions
from moirae.evaluation.plan import ActiveRule
from moirae.rules import has_same_alerts

NO_ROWS = "the archive has no settled rows of its streams in the range"
REMOVED = "the rule is removed, or disabled"
NO_PAST = "it reads streams of recalls or stages, which have no past"


@dataclass
class RuleChange:
    """A rule and the version before it, over one range. `before` None: there is none.

    `evaluate` may be left at any time: alerts are those of what is done. `tests`: of the rule, then
    of the version before; none with a `problem`, which says why there are no figures.
    """

    rule: ActiveRule
    before: ActiveRule | None
    tests: Sequence[Backtest] = ()
    problem: str | None = None

    @property
    def range(self) -> BacktestRange:
        """The range that is tested; only without a problem."""
        return self.tests[0].range

    @property
    def done_from(self) -> Micros | None:
        """The start of what is evaluated; None: nothing yet."""
        times = [test.done_from for test in self.tests]
        return max((time for time in times if time is not None), default=None)

    @property
    def error(self) -> Exception | None:
        """Why one of the versions is not evaluated any further."""
        return next((test.error for test in self.tests if test.error is not None), None)

    def evaluate(self) -> Iterator[TimeRange]:
        """Evaluate slice by slice, newest first, and yield each. An error ends it."""
        if not self.tests:
            return
        for time_range in evaluate_together(self.tests):
            if self.error is not None:
                return
            yield time_range

    def share_done(self) -> float:
        """How much of the range is evaluated, 0 to 1."""
        if not self.tests:
            return 1.0
        if self.done_from is None:
            return 0.0
        tested = self.range
        return (tested.end - self.done_from) / max(1, tested.end - tested.start)

    def fold_alerts(self) -> AlertColumns:
        """The alerts of the rule, hidden ones too; only without a problem."""
        return self.tests[0].fold_alerts()

    def compare(self, alerts: AlertColumns) -> VersionChange:
        """What the rule changes, whose alerts these are. Without a version before, all are new."""
        if len(self.tests) > 1:
            return compare_versions(self.tests[1].fold_alerts(), alerts)
        return compare_versions(alerts.select(np.empty(0, np.int64)), alerts)


@dataclass(frozen=True)
class ChangePlanner:
    """Plans what is evaluated: over one archive, up to `end`, from `choose_start` (by the newest row)."""

    archive: BacktestArchive
    choose_start: Callable[[Micros], Micros]
    end: Micros | None = None

    def plan(self, rule: ActiveRule, before: ActiveRule | None) -> RuleChange:
        """A rule and the version before it, over the range that both have."""
        versions = [rule] if before is None else [rule, before]
        if any(version.reads_revisions for version in versions):
            return RuleChange(rule, before, problem=NO_PAST)
        ranges = [
            plan_backtest(version, self.archive, self.choose_start, self.end)
            for version in versions
        ]
        planned = plan_together([item for item in ranges if item is not None])
        if planned is None or None in ranges:
            return RuleChange(rule, before, problem=NO_ROWS)
        tests = [Backtest(version, self.archive, planned) for version in versions]
        return RuleChange(rule, before, tests)

    def plan_changes(
        self, rules: Sequence[ActiveRule], rules_before: Mapping[str, ActiveRule]
    ) -> list[RuleChange]:
        """The rules that are new or removed, or whose alerts may differ from those before."""
        changes: list[RuleChange] = []
        for rule in rules:
            before = rules_before.get(rule.name)
            if before is None or not has_same_alerts(before.definition.rule, rule.definition.rule):
                changes.append(self.plan(rule, before))
        names = {rule.name for rule in rules}
        for name, before in rules_before.items():
            if name not in names:
                changes.append(RuleChange(before, before, problem=REMOVED))
        return changes
