"""Evaluates the stages and the condition of open events with one plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from cachetools import LRUCache

import sql
from recall.errors import EngineLost
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
        if plan.condition is not None and not new_rows:
            recalls = self._load_recalls(group)
            for item in evaluations:
                planned = item.planned
                item.verdict = self._decide(
                    plan.condition, planned, recalls.get(planned.key, {}), final=final
                )
        return evaluations

    def _load_recalls(
        self, group: Sequence[PlannedEvent]
    ) -> dict[EventKey, dict[str, RecallState]]:
        """The recalls of events with their last answers."""
        recalls: dict[EventKey, dict[str, RecallState]] = {}
        for row in self._answers.list_last([planned.row.eid for planned in group]):
            state = RecallState(row.state, row.number or 0, list(row.answer or []))
            recalls.setdefault((row.rule, row.version, row.eid), {})[row.recall] = state
        return recalls

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
            rows = recalls[name].usable_rows if name in recalls else []
            answers[name] = rows, types
        try:
            value = self._stages.evaluate_condition(condition, planned.event, answers)
        except Exception as error:
            if isinstance(error, EngineLost):
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
