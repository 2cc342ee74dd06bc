"""Evaluation of rules in the live process, by the engines that suit them.

Panes, the index and DuckDB evaluate rows in memory, tasks on executors archived files, Spark's
expressions the filters that are left over few rows, and statements of Spark all else.
`moirae.evaluation.engine` has the path that a rule takes through them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from moirae.alerts import EventRow
from moirae.evaluation.costs import RuleCosts, RuleCounts, divide_time
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import EvaluationRequest, RowSource, RuleEngine
from moirae.evaluation.executor_rules import ExecutorRules
from moirae.evaluation.guard import Guard
from moirae.evaluation.isolation import GroupResults, evaluate_groups, select_groups
from moirae.evaluation.losses import VerdictLosses
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import ActiveRule, RuleSlice, relation_view
from moirae.evaluation.prepared_rules import PreparedRules
from moirae.evaluation.rule_groups import (
    ColumnsByRelation,
    ColumnsByStream,
    RuleGroup,
)
from moirae.evaluation.spark_filters import SparkFilters
from moirae.evaluation.spark_rules import SparkRules
from moirae.evaluation.stream_rows import LiveStreamRows
from recall.engines import RowFilters
from recall.engines.routing import EngineChoice


@dataclass(frozen=True)
class RuleEngines:
    """What evaluates rules in the live process, besides statements of Spark.

    `choice`: whether rows in memory are evaluated in this process. `executors`: evaluate archived
    rows. `max_read_rows`: archived rows near events that the live process reads for contexts; None:
    no limit. `filters`: evaluate some rows by Spark's expressions. `prepared`: rules that may be
    compiled already.
    """

    choice: EngineChoice = field(default_factory=EngineChoice)
    executors: ExecutorRules | None = None
    max_read_rows: int | None = None
    filters: RowFilters | None = None
    prepared: PreparedRules | None = None


@dataclass(frozen=True)
class EvaluationResult:
    """Event rows of the rules that have any, and the names of rules whose evaluation failed."""

    event_rows: list[tuple[ActiveRule, list[EventRow]]]
    failed: frozenset[str] = frozenset()


class RuleEvaluator:
    """Evaluates rules in the live process. Failures are recorded by the guard."""

    def __init__(
        self,
        rows: LiveStreamRows,
        guard: Guard,
        losses: VerdictLosses,
        columns: ColumnsByStream,
        relations: ColumnsByRelation,
        engines: RuleEngines,
    ) -> None:
        """`columns`: the declared columns of streams; `relations`: of relations."""
        self._rows = rows
        self._guard = guard
        self.losses = losses
        self.costs = RuleCosts()
        self.prepared = engines.prepared or PreparedRules(columns, relations)
        self._grouper = self.prepared.grouper
        self._indexed = self.prepared.indexed
        self._executor_rules = engines.executors
        if self._executor_rules is not None:
            self._indexed.jobs = self._executor_rules.jobs
        self._duckdb: DuckDBRules | None = None
        self._panes: PaneCache | None = None
        self._engines: list[RuleEngine] = [self._indexed]
        if engines.choice.allows_duckdb:
            self._duckdb = DuckDBRules()
            self._panes = PaneCache(self._duckdb, rows, self._indexed.reduce)
            self._engines = [self._panes, self._indexed, self._duckdb]
        if self._executor_rules is not None:
            self._engines.append(self._executor_rules)
        self._filters: SparkFilters | None = None
        if engines.filters is not None:
            self._filters = SparkFilters(self._grouper, engines.filters, guard)
            self._engines.append(self._filters)
        self._engines.append(SparkRules(self._grouper, guard))

    def set_active_rules(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop what is cached for rules that are no longer active; note what the others read."""
        streams = [
            stream for rule in active_rules for stream in rule.definition.rule.revision_streams
        ]
        self._rows.revisions.set_streams(streams)
        columns = {stream.table: stream.columns for stream in streams}
        self.prepared.add_streams(columns)
        self.prepared.remove_inactive(active_rules)
        if self._filters is not None:
            self._filters.remove_inactive(active_rules)
        if self._duckdb is not None:
            self._duckdb.reset()
        if self._panes is not None:
            self._panes.remove_inactive(active_rules)

    def set_relation(self, name: str, versions: pa.Table) -> None:
        """Replace a relation in all engines. `versions`: all row versions, with their validity."""
        self._rows.to_frame(versions).createOrReplaceTempView(relation_view(name))
        if self._duckdb is not None:
            self._duckdb.set_relation(name, versions)
        if self._executor_rules is not None:
            self._executor_rules.set_relation(name, versions)

    def get_memory(self) -> Mapping[str, int]:
        """The bytes that are held for rules, by name; without the recent rows of streams."""
        return {} if self._panes is None else self._panes.get_memory()

    def start_slice(self, rule_slice: RuleSlice) -> None:
        """Start the job that evaluates a slice on executors; `evaluate_slice` waits for its end.

        Nothing is lost if the slice is not evaluated.
        """
        if self._executor_rules is None or len(rule_slice.streams) != 1:
            return
        (stream,) = rule_slice.streams
        rules = rule_slice.rules
        is_in_memory = self._rows.count_in_memory(stream, rule_slice.input_range) is not None
        is_single_part = len(self._guard.isolate_suspects(rules, lambda rule: rule.name)) == 1
        if is_in_memory or not is_single_part:
            return
        request = self._request(rule_slice)
        groups: Sequence[RuleGroup] = self._grouper.group(rules)
        for engine in self._engines:
            if groups:
                selected, groups = select_groups(engine, groups, request)
                engine.prepare(selected, request)

    def evaluate_slice(self, rule_slice: RuleSlice) -> EvaluationResult:
        """The event rows of the rules of a slice with ts in the slice."""
        result = self._evaluate(rule_slice.rules, self._request(rule_slice))
        selected: list[tuple[ActiveRule, list[EventRow]]] = []
        for rule, event_rows in result.event_rows:
            rows_in_slice = rule_slice.select_event_rows(event_rows)
            if rows_in_slice:
                selected.append((rule, rows_in_slice))
        return EvaluationResult(selected, result.failed)

    def evaluate_rows(
        self, rules: Sequence[ActiveRule], sources: Mapping[str, RowSource]
    ) -> EvaluationResult:
        """The event rows of rules in new rows, by stream."""
        return self._evaluate(rules, EvaluationRequest(sources))

    def _request(self, rule_slice: RuleSlice) -> EvaluationRequest:
        time_range = rule_slice.input_range
        sources: dict[str, RowSource] = {}
        for stream in rule_slice.streams:
            sources[stream] = self._rows.find_range(stream, time_range)
        return EvaluationRequest(sources, rule_slice)

    def evaluate_sample(
        self, rule: ActiveRule, sources: Mapping[str, RowSource]
    ) -> EvaluationResult:
        """The event rows of a rule that loses too many verdicts, in some of the new rows."""
        request = EvaluationRequest(sources)
        evaluation = evaluate_groups(self._grouper.group([rule]), request, self._engines)
        counts = self._indexed.take_counts().get(rule.rule_version, RuleCounts(0, 0))
        self.losses.record_sample(rule, request.row_count, counts.candidates, evaluation.lost_rows)
        return EvaluationResult(list(evaluation.event_rows.items()))

    def _evaluate(
        self, rules: Sequence[ActiveRule], request: EvaluationRequest
    ) -> EvaluationResult:
        rule_rows: dict[ActiveRule, list[EventRow]] = {}
        failed: set[str] = set()
        self.losses.add_rows(request)
        for part in self._guard.isolate_suspects(rules, lambda rule: rule.name):
            for members, remaining in self._leave_out_lost_rows(part, request):
                groups = self._grouper.group(members)
                evaluation = evaluate_groups(groups, remaining, self._engines)
                rule_rows |= evaluation.event_rows
                failed.update(failure.rule.name for failure in evaluation.failures)
                self._record(members, evaluation)
        return EvaluationResult(list(rule_rows.items()), frozenset(failed))

    def _leave_out_lost_rows(
        self, rules: Sequence[ActiveRule], request: EvaluationRequest
    ) -> list[tuple[Sequence[ActiveRule], EvaluationRequest]]:
        """Rules with the rows that they are evaluated over: without those that they have lost."""
        parts: list[tuple[Sequence[ActiveRule], EvaluationRequest]] = []
        affected: set[ActiveRule] = set()
        for rule in self.losses.select_losing(rules):
            remaining = self.losses.remove_lost(rule, request)
            if remaining is not request:
                parts.append(([rule], remaining))
                affected.add(rule)
        if not affected:
            return [(rules, request)]
        unaffected = [rule for rule in rules if rule not in affected]
        return [(unaffected, request), *parts] if unaffected else parts

    def _record(self, rules: Sequence[ActiveRule], evaluation: GroupResults) -> None:
        """Record the failures, losses and costs of an evaluation."""
        counts = self._indexed.take_counts()
        self.losses.add_candidates({rule: count.candidates for rule, count in counts.items()})
        for failure in evaluation.failures:
            self._guard.record_failure(*failure)
        if evaluation.lost_rows:
            self._guard.isolate({row.rule.name for row in evaluation.lost_rows})
            self._guard.quarantined |= self.losses.record(evaluation.lost_rows)
        seconds = divide_time(evaluation.shared, counts)
        for rule, spent in evaluation.seconds.items():
            seconds[rule] = seconds.get(rule, 0.0) + spent
        if self._executor_rules is not None:
            head_start = self._executor_rules.take_head_start() / max(1, len(rules))
            if head_start:
                for rule in rules:
                    seconds[rule] = seconds.get(rule, 0.0) + head_start
        self.costs.add(seconds, counts)
