"""Evaluates the stages and the condition of open events with one plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from cachetools import LRUCache

import sql
from recall.errors import EngineLost, ExecutorsAway
from recall.event_plans import ColumnTypes, Condition, order_stages
from recall.revisions import diff, key_rows
from recall.stages.conditions import (
    RecallState,
    Verdict,
    decide,
    decide_without_value,
    find_undecided,
)
from recall.stages.evaluation import StageEvaluator, StageFailure
from recall.stages.event_rows import EventRows
from recall.stages.state import EventKey, EventOutcome, PlannedEvent, changed_recalls, is_due
from recall.stages.statements import StageQuery, stage_queries
from sql.recalls import RevisionGateway

_LOG = structlog.get_logger()

_MAX_PLANS = 1_000  # in memory


class EventEvaluator:
    """Evaluates events; nothing is stored.

    `stream_columns`: of the declared streams, with Spark's types.
    """

    def __init__(
        self,
        connection: sql.Connection,
        rows: EventRows,
        stages: StageEvaluator,
        stream_columns: Mapping[str, ColumnTypes],
    ) -> None:
        self._answers = RevisionGateway(connection)
        self._rows = rows
        self._stages = stages
        self._stream_columns = stream_columns
        self._queries: LRUCache[tuple[str, str], dict[str, StageQuery]] = LRUCache(_MAX_PLANS)
        # The appends of live streams that open events were last evaluated over.
        self._append_counts: dict[EventKey, Mapping[str, int]] = {}

    def queries_of(self, planned: PlannedEvent) -> dict[str, StageQuery]:
        """The queries of the stages of an event, by stage."""
        queries = self._queries.get(planned.plan_key)
        if queries is None:
            queries = stage_queries(planned.plan, self._stream_columns)
            self._queries[planned.plan_key] = queries
        return queries

    def forget(self, key: EventKey) -> None:
        """Release what is known of an event."""
        self._rows.forget(key)
        self._append_counts.pop(key, None)

    def evaluate(
        self, group: Sequence[PlannedEvent], *, new_rows: bool = False, final: bool = False
    ) -> list[EventOutcome]:
        """Evaluate events of one plan.

        `new_rows`: because streams or contexts have new rows, which conditions do not read. `final`: for the
        last time, all stages.
        """
        plan = group[0].plan
        queries = self.queries_of(group[0])
        evaluations = self._rows.load(group)
        changed_contexts = self._rows.load_contexts(evaluations)
        changed_coverage = self._load_answers(evaluations, judge=not new_rows)
        live_stages = [stage for stage in plan.stages if stage.reads_live_rows]
        live_rows = self._stages.snapshot(live_stages, [item.event for item in group])
        changed: dict[EventKey, set[str]] = {}
        changed_streams: dict[EventKey, set[str]] = {}
        for item in evaluations:
            planned = item.planned
            item.append_counts = live_rows.append_counts
            evaluated_to = planned.row.positions.get("recalls", {})
            changed[planned.key] = set(changed_recalls(plan, item.state, evaluated_to))
            item.has_new_inputs = bool(changed[planned.key]) or planned.is_first_evaluation
            changed[planned.key] |= changed_contexts.get(planned.key, set())
            changed[planned.key] |= changed_coverage[planned.key]
            counts = self._append_counts.get(planned.key, {})
            changed_streams[planned.key] = {
                stream
                for stream, count in live_rows.append_counts.items()
                if count != counts.get(stream)
            }
            if live_stages:
                self._append_counts[planned.key] = live_rows.append_counts
        for name in order_stages({stage.name: list(stage.inputs) for stage in plan.stages}):
            due = []
            for item in evaluations:
                key = item.planned.key
                is_stage_due = (
                    final
                    or item.planned.is_first_evaluation
                    or is_due(queries[name].stage, changed[key], changed_streams[key])
                )
                if is_stage_due and name not in item.state.errors:
                    due.append(item)
            if not due:
                continue
            inputs = self._rows.load_inputs(queries[name], due)
            results = self._stages.evaluate(queries[name], inputs, live_rows)
            for item in due:
                result = results[item.planned.row.eid]
                if _apply_result(queries[name], item, result):
                    changed[item.planned.key].add(name)
        if plan.condition is not None:
            for item in evaluations:
                planned = item.planned
                has_changed = not changed_coverage[planned.key].isdisjoint(plan.judged_coverage)
                if not new_rows or has_changed:
                    item.verdict = self._decide(
                        plan.condition, planned, item.state.answers, final=final
                    )
        return evaluations

    def _load_answers(
        self, evaluations: Sequence[EventOutcome], *, judge: bool
    ) -> dict[EventKey, set[str]]:
        """Load the last answers if the condition is evaluated or a coverage is read.

        Returns the recalls whose coverage is read and has changed, by event.
        """
        plan = evaluations[0].planned.plan
        covered = plan.covered_recalls
        changed: dict[EventKey, set[str]] = {item.planned.key: set() for item in evaluations}
        if not covered and (plan.condition is None or not judge):
            return changed
        recalls: dict[EventKey, dict[str, RecallState]] = {}
        for row in self._answers.list_last([item.planned.row.eid for item in evaluations]):
            state = RecallState(
                row.state, row.number or 0, row.answer or (), row.coverage, row.estimates
            )
            recalls.setdefault((row.rule, row.version, row.eid), {})[row.recall] = state
        for item in evaluations:
            key = item.planned.key
            changed[key] = item.state.replace_answers(recalls.get(key, {}), covered)
        return changed

    def _decide(
        self,
        condition: Condition,
        planned: PlannedEvent,
        recalls: Mapping[str, RecallState],
        *,
        final: bool,
    ) -> Verdict | None:
        """What the condition says now; None: nothing yet."""
        names = list(condition.judged)
        undecided = find_undecided(names, recalls)
        if undecided and not final:
            reason = f"no answer of {', '.join(undecided)} yet"
            return decide_without_value(reason, final=False)
        answers = {}
        for name, types in condition.judged.items():
            rows = recalls[name].judged_rows if name in recalls else []
            answers[name] = rows, types
        try:
            value = self._stages.evaluate_condition(condition, planned.event, answers)
        except Exception as error:
            if isinstance(error, EngineLost | ExecutorsAway):
                raise
            message = str(error).strip().splitlines()[0][:500]
            _LOG.error(
                "condition failed",
                action="condition_failed",
                rule=planned.row.rule,
                error=message,
            )
            return decide_without_value(f"the condition failed: {message}", final=final)
        return decide(value, names, recalls, final=final)


def _apply_result(
    query: StageQuery, item: EventOutcome, result: list[dict[str, Any]] | StageFailure
) -> bool:
    """Note the changes of a stage; returns whether its rows have changed."""
    name = query.stage.name
    item.evaluated.add(name)
    rows: list[dict[str, Any]] = []
    if isinstance(result, StageFailure):
        item.state.errors[name] = sql.replace_nul(result.reason)
        item.has_new_inputs = True
        _LOG.error(
            "stage failed",
            action="stage_failed",
            rule=item.planned.row.rule,
            stage=name,
            event_id=str(item.planned.row.eid),
            error=result.reason,
        )
    else:
        rows = sql.replace_nul(result)
    after = key_rows(rows, query.stage.row_key)
    changes = diff(item.state.rows.get(name, {}), after)
    item.state.rows[name] = after
    if changes:
        item.changes[name] = changes
    return bool(changes)
