"""The loop that evaluates stages and conditions, and ends events with their boundary.

It runs in a thread of the recall process with a connection of its own. What is to be done is read
from the database: revisions behind those that were evaluated, and events whose recalls have ended.
The rows of open events are kept in memory, and rebuilt from the stored revisions after a restart,
or after another process has evaluated the event. An evaluation is stored in one transaction with
the numbers of the revisions that it is over, unless another process was faster.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import orjson
import structlog
from cachetools import LRUCache
from deltalake.exceptions import DeltaError

import sql
from archiver.errors import ArchiverError
from archiver.ingest import Catalog
from archiver.periodic import Periodic, Timer
from archiver.times import Micros
from recall.engines import EngineChoice, SparkEngine, evaluate_condition
from recall.event_plans import ColumnTypes, Condition, EventPlan, order_stages
from recall.ledger import EventOutput, RevisionStreams, retry_on_deadlock
from recall.requests import RecallEvent
from recall.revisions import RowChange, context_column, diff, key_rows
from recall.stages.archive import RevisionArchive
from recall.stages.condition_state import (
    RecallState,
    Verdict,
    decide,
    decide_without_value,
    find_undecided,
)
from recall.stages.evaluation import StageEvaluator, StageFailure, StageInput
from recall.stages.state import EventState, carry_key, changed_recalls, is_due, may_end
from recall.stages.statements import StageQuery, stage_queries

_LOG = structlog.get_logger()

_WAKE_INTERVAL = 0.5  # seconds between two rounds that nothing has woken
_END_INTERVAL = 0.5  # seconds between two searches for events that end
_ARCHIVE_INTERVAL = 10.0  # seconds between copies of revisions to the archive
_RETRY_DELAY = 2.0  # seconds after a round that failed
_MAX_ENDING = 1_000  # events in one search
_MAX_STATES = 20_000  # events whose rows are in memory
_BATCH_EVENTS = 200  # evaluated together

EventKey = tuple[str, str, UUID]  # rule, version, event


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """The settings of a runner."""

    stream_columns: Mapping[str, ColumnTypes]
    """Of the declared streams, with Spark's types."""
    lateness: Mapping[str, Micros]
    """Of the declared streams, from which their watermarks follow."""
    choice: EngineChoice


@dataclass(frozen=True)
class _PlannedEvent:
    """An event without boundary, with its parsed plan."""

    row: sql.RecalledEventRow
    plan: EventPlan
    event: RecallEvent

    @property
    def key(self) -> EventKey:
        return self.row.rule, self.row.version, self.row.eid

    def output(self, name: str) -> EventOutput:
        row = self.row
        return EventOutput(row.rule, row.version, name, row.eid, self.event.ts)


@dataclass
class _Evaluation:
    """The outcome of an evaluation: changes by stage, and what to store with them."""

    planned: _PlannedEvent
    state: EventState
    changes: dict[str, list[RowChange]] = field(default_factory=dict)
    evaluated: set[str] = field(default_factory=set)
    verdict: Verdict | None = None
    append_counts: Mapping[str, int] = field(default_factory=dict)
    has_new_inputs: bool = False

    @property
    def is_worth_storing(self) -> bool:
        return self.has_new_inputs or bool(self.changes) or bool(self.verdict)

    def positions(self) -> dict[str, Any]:
        """Over which revisions and appends the event was evaluated."""
        recalls = self.planned.plan.recalls
        sequences = self.state.sequences
        return {
            "recalls": {name: sequences[name] for name in recalls if name in sequences},
            "appends": dict(self.append_counts),
        }


class StageRunner:
    """Evaluates what follows from the answers of recalls, on a connection of its own."""

    def __init__(
        self,
        connection: sql.Connection,
        evaluator: StageEvaluator,
        conditions: SparkEngine,
        config: StageConfig,
        archive: RevisionArchive | None = None,
    ) -> None:
        """`conditions`: evaluates the conditions that DuckDB cannot. `archive`: of revisions."""
        self._connection = connection
        self._evaluator = evaluator
        self._conditions = conditions
        self._config = config
        self._events = sql.RecalledEventGateway(connection)
        self._revisions = sql.RowRevisionGateway(connection)
        self._answers = sql.RevisionGateway(connection)
        self._contexts = sql.ContextGateway(connection)
        self._past_events = sql.EventGateway(connection)
        self._streams = RevisionStreams(connection)
        self._catalog = Catalog(connection)
        self._wake = threading.Event()
        # The number up to which each stream was searched for changed events, by its ID.
        self._searched: dict[int, int] = {}
        # Open events that are evaluated again as live rows arrive, with the time of that by the
        # monotonic clock, and the appends that they were last evaluated over.
        self._live: dict[EventKey, tuple[float, Mapping[str, int]]] = {}
        self._has_loaded = False
        self._states: LRUCache[EventKey, EventState] = LRUCache(_MAX_STATES)
        self._plans: LRUCache[bytes, EventPlan] = LRUCache(1_000)
        self._queries: LRUCache[int, dict[str, StageQuery]] = LRUCache(1_000)
        self._end_timer = Timer(_END_INTERVAL)
        self._archive = None
        if archive is not None:
            self._archive = Periodic(
                "archive revisions", _ARCHIVE_INTERVAL, archive.flush, first_after=_ARCHIVE_INTERVAL
            )

    # The loop

    def wake(self) -> None:
        """Start the next round at once; may be called from any thread."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Errors of the database and the archive are retried."""
        while not stop.is_set():
            self._wake.clear()
            try:
                self.run_once()
            except (sql.DatabaseError, ArchiverError, DeltaError, OSError) as error:
                _LOG.warning("stages not evaluated", action="stages_failed", error=str(error))
                if stop.wait(_RETRY_DELAY) or self._connection.closed:
                    return
            self._wake.wait(_WAKE_INTERVAL)
        if self._archive is not None:
            with suppress(sql.DatabaseError, ArchiverError, DeltaError, OSError):
                self._archive.run()

    def run_once(self) -> None:
        """One round: evaluate what has changed, and end events."""
        changed = self._find_changed()
        if changed is None or changed:
            self._evaluate_changed(changed)
        self._evaluate_live()
        if self._archive is not None:
            self._archive.run_if_due()
        if self._end_timer.is_due():
            self._end_timer.restart()
            self.end_events()

    def _find_changed(self) -> Collection[EventKey] | None:
        """The events with revisions since the last search; None: all may have, after a start."""
        streams = self._revisions.list_streams()
        behind = {}
        for stream in streams:
            searched = self._searched.get(stream.id, 0)
            if stream.last_seq > searched:
                behind[stream.id] = searched
        if not self._has_loaded:
            changed = None
        elif behind:
            rows = self._revisions.list_changed_events(behind)
            changed = {(row.rule, row.version, row.eid) for row in rows}
        else:
            changed = set()
        # Numbers above these may have been committed since: they are found by the next search.
        self._searched = {stream.id: stream.last_seq for stream in streams}
        self._has_loaded = True
        return changed

    def _evaluate_changed(self, changed: Collection[EventKey] | None) -> None:
        eids = None if changed is None else {key[2] for key in changed}
        planned = list(self._parse(self._events.list_open(eids)))
        if changed is not None:
            planned = [event for event in planned if event.key in changed]
        for group in self._group(planned):
            self._evaluate_and_store(group, new_rows=False)

    def _evaluate_live(self) -> None:
        """Evaluate the open events whose streams have new rows, at most every `every` seconds."""
        now = time.monotonic()
        due = [key for key, (due_at, _) in self._live.items() if due_at <= now]
        if not due:
            return
        rows = self._events.list_open({key[2] for key in due})
        planned = [event for event in self._parse(rows) if event.key in due]
        for key in set(due) - {event.key for event in planned}:
            del self._live[key]  # it has ended
        for group in self._group(planned):
            self._evaluate_and_store(group, new_rows=True)

    def _parse(self, rows: Iterable[sql.RecalledEventRow]) -> Iterable[_PlannedEvent]:
        for row in rows:
            text = orjson.dumps(row.plan, option=orjson.OPT_SORT_KEYS)
            if text not in self._plans:
                self._plans[text] = EventPlan.from_json(row.plan)
            event = RecallEvent.from_json(row.eid, row.event)
            yield _PlannedEvent(row, self._plans[text], event)

    def _group(self, planned: Iterable[_PlannedEvent]) -> Iterable[Sequence[_PlannedEvent]]:
        """Events of one rule and plan, in batches."""
        groups: dict[tuple[str, int], list[_PlannedEvent]] = defaultdict(list)
        for event in planned:
            groups[event.row.rule, id(event.plan)].append(event)
        for group in groups.values():
            for start in range(0, len(group), _BATCH_EVENTS):
                yield group[start : start + _BATCH_EVENTS]

    def _queries_of(self, plan: EventPlan) -> dict[str, StageQuery]:
        if id(plan) not in self._queries:
            self._queries[id(plan)] = stage_queries(plan, self._config.stream_columns)
        return self._queries[id(plan)]

    # Evaluation

    def _evaluate_and_store(self, group: Sequence[_PlannedEvent], *, new_rows: bool) -> None:
        with self._forget_on_error(group):
            evaluations = self._evaluate(group, new_rows=new_rows, final=False)
            worth_storing = [item for item in evaluations if item.is_worth_storing]
            if worth_storing:
                retry_on_deadlock(lambda: self._store(worth_storing))
        now = time.monotonic()
        for item in evaluations:
            if any(stage.reads_live_rows for stage in item.planned.plan.stages):
                due_at = now + item.planned.plan.every
                self._live[item.planned.key] = due_at, item.append_counts

    @contextmanager
    def _forget_on_error(self, group: Sequence[_PlannedEvent]) -> Iterator[None]:
        """After an error the rows in memory may not be the stored ones."""
        try:
            yield
        except BaseException:
            for planned in group:
                self._states.pop(planned.key, None)
            raise

    def _evaluate(
        self, group: Sequence[_PlannedEvent], *, new_rows: bool, final: bool
    ) -> list[_Evaluation]:
        """Evaluate the stages and the condition of events with one plan.

        `new_rows`: only if streams have new rows. `final`: for the last time.
        """
        plan = group[0].plan
        queries = self._queries_of(plan)
        evaluations = self._load_states(group)
        live_stages = [stage for stage in plan.stages if stage.reads_live_rows]
        live_rows = self._evaluator.snapshot(live_stages, [item.event for item in group])
        changed: dict[EventKey, set[str]] = {}
        changed_streams: dict[EventKey, set[str]] = {}
        for item in evaluations:
            key = item.planned.key
            item.append_counts = live_rows.append_counts
            evaluated_to = item.planned.row.positions.get("recalls", {})
            is_first = item.planned.row.evaluations == 0
            names = changed_recalls(plan, item.state, evaluated_to)
            item.has_new_inputs = bool(names) or is_first
            changed[key] = set(names)
            _, appends = self._live.get(key, (0.0, {}))
            changed_streams[key] = {
                stream
                for stream, count in live_rows.append_counts.items()
                if final or count != appends.get(stream)
            }
        tables = self._load_event_tables(plan, group)
        past_events = self._load_past_events(evaluations)
        for name in order_stages({stage.name: list(stage.inputs) for stage in plan.stages}):
            query = queries[name]
            due = []
            for item in evaluations:
                key = item.planned.key
                if name in item.state.errors:
                    continue
                is_first = item.planned.row.evaluations == 0
                if is_first or is_due(query.stage, changed[key], changed_streams[key]):
                    due.append(item)
            if not due:
                continue
            inputs = [self._stage_input(query, item, tables, past_events) for item in due]
            results = self._evaluator.evaluate(query, inputs, live_rows)
            for item in due:
                result = results[item.planned.row.eid]
                if self._apply_result(query, item, result):
                    changed[item.planned.key].add(name)
        if plan.condition is not None:
            for item in evaluations:
                if final or not new_rows:
                    item.verdict = self._decide(plan.condition, item.planned, final=final)
        return evaluations

    def _load_states(self, group: Sequence[_PlannedEvent]) -> list[_Evaluation]:
        """The events with their rows after the last revision."""
        rule = group[0].row.rule
        recalls = group[0].plan.recalls
        outputs = [*recalls, *(stage.name for stage in group[0].plan.stages)]
        states: dict[tuple[str, UUID], EventState] = {}
        positions = []
        for planned in group:
            state = self._states.get(planned.key)
            names: Sequence[str] = recalls
            if state is None or state.evaluations != planned.row.evaluations:
                state = EventState(planned.row.evaluations)
                state.errors = self._events.stage_errors(*planned.key)
                names = outputs
            self._states[planned.key] = state
            states[planned.row.version, planned.row.eid] = state
            for name in names:
                after = state.sequences.get(name, 0)
                positions.append((name, planned.row.eid, planned.row.version, after))
        for row in self._revisions.list_of_events(rule, positions):
            change = RowChange(row.op, row.row_key or "", row.row)  # type: ignore[arg-type]
            states[row.version, row.eid].apply(row.name, row.seq, change)
        return [
            _Evaluation(planned, states[planned.row.version, planned.row.eid]) for planned in group
        ]

    def _load_event_tables(
        self, plan: EventPlan, group: Sequence[_PlannedEvent]
    ) -> dict[UUID, dict[str, list[Mapping[str, Any]]]]:
        """The contexts and surroundings that stages name, by event and name."""
        own_tables = set()
        outputs = {*plan.recalls, *(stage.name for stage in plan.stages)}
        for stage in plan.stages:
            own_tables |= stage.inputs.keys() - outputs
        if not own_tables:
            return {}
        tables: dict[UUID, dict[str, list[Mapping[str, Any]]]] = {}
        versions = {planned.row.eid: planned.row.version for planned in group}
        for row in self._contexts.list_of_events(list(versions)):
            if row.version == versions[row.eid]:
                tables[row.eid] = {
                    name: row.contexts.get(name) or row.surroundings.get(name) or []
                    for name in own_tables
                }
        return tables

    def _load_past_events(self, evaluations: Sequence[_Evaluation]) -> dict[str, Mapping[str, Any]]:
        """What rows of similarity recalls carry of past events that are still stored, by ID."""
        plan = evaluations[0].planned.plan
        rule = evaluations[0].planned.row.rule
        named = {name for stage in plan.stages for name in stage.inputs}
        eids = set()
        for item in evaluations:
            for name in named.intersection(plan.similar):
                eids |= {UUID(row["past_eid"]) for row in item.state.rows_of(name)}
        past_events: dict[str, Mapping[str, Any]] = {}
        if eids:
            for row in self._past_events.list_past(sorted(eids)):
                if row.rule == rule:
                    contexts = {
                        context_column(name): orjson.dumps(rows).decode()
                        for name, rows in (row.contexts or {}).items()
                    }
                    past_events[str(row.eid)] = {**contexts, **row.attributes}
        return past_events

    def _stage_input(
        self,
        query: StageQuery,
        item: _Evaluation,
        event_tables: Mapping[UUID, Mapping[str, list[Mapping[str, Any]]]],
        past_events: Mapping[str, Mapping[str, Any]],
    ) -> StageInput:
        planned = item.planned
        plan = planned.plan
        outputs = {*plan.recalls, *(stage.name for stage in plan.stages)}
        tables: dict[str, Sequence[Mapping[str, Any]]] = {}
        for name in query.stage.inputs:
            if name in plan.similar:
                rows = item.state.rows_of(name)
                tables[name] = [{**past_events.get(row["past_eid"], {}), **row} for row in rows]
            elif name in outputs:
                rows = item.state.rows_of(name)
                tables[name] = carry_key(rows, planned.event.key, plan.key_types)
            else:
                tables[name] = event_tables.get(planned.row.eid, {}).get(name, [])
        return StageInput(planned.event, tables)

    def _apply_result(
        self, query: StageQuery, item: _Evaluation, result: list[dict[str, Any]] | StageFailure
    ) -> bool:
        """Note the changes of a stage; returns whether its rows have changed."""
        name = query.stage.name
        item.evaluated.add(name)
        rows: list[dict[str, Any]] = []
        if isinstance(result, StageFailure):
            item.state.errors[name] = result.reason
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

    # Conditions

    def _decide(
        self, condition: Condition, planned: _PlannedEvent, *, final: bool
    ) -> Verdict | None:
        """What the condition says now; None: nothing yet."""
        recalls: dict[str, RecallState] = {}
        for row in self._answers.list_last_of_event(planned.row.eid):
            if (row.rule, row.version) == (planned.row.rule, planned.row.version):
                recalls[row.recall] = RecallState(
                    row.state, row.number or 0, list(row.answer or [])
                )
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
            value = self._config.choice.run(
                lambda: evaluate_condition(condition, planned.event, answers),
                lambda: self._conditions.evaluate_condition(condition, planned.event, answers),
            )
        except Exception as error:
            if not self._conditions.is_alive():
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

    # Storing

    def _store(self, evaluations: Sequence[_Evaluation]) -> None:
        """Store evaluations with the positions that they are over, in one transaction."""
        stale: list[EventKey] = []
        with self._connection.transaction():
            for item in sorted(evaluations, key=lambda item: item.planned.key):
                planned = item.planned
                is_current = self._events.record_evaluation(
                    *planned.key, positions=item.positions(), expected=planned.row.evaluations
                )
                if not is_current:
                    stale.append(planned.key)  # another process has evaluated it
                    item.changes.clear()
                    continue
                self._store_outcome(item, final=False)
            self._append_changes(evaluations)
        for item in evaluations:
            item.state.evaluations = item.planned.row.evaluations + 1
        for key in stale:
            self._states.pop(key, None)

    def _append_changes(self, evaluations: Sequence[_Evaluation]) -> None:
        """Append to the streams of stages, in the order in which all transactions lock them."""
        outputs = []
        for item in evaluations:
            for name, changes in item.changes.items():
                outputs.append((item.planned.output(name), changes))
        outputs.sort(key=lambda pair: (pair[0].rule, pair[0].name))
        for output, changes in outputs:
            self._streams.append(output, changes)

    def _store_outcome(self, item: _Evaluation, *, final: bool) -> None:
        """Store the states of stages and the verdict."""
        planned = item.planned
        for stage in planned.plan.stages:
            name = stage.name
            error = item.state.errors.get(name)
            state = "failed" if error is not None else "done" if final else "running"
            if final or name in item.evaluated:
                self._events.put_stage(
                    *planned.key,
                    name,
                    state=state,
                    error=error,
                    has_changed=name in item.changes,
                )
        verdict = item.verdict
        if verdict is not None:
            self._events.set_history(
                *planned.key, history=verdict.history, final=verdict.final, reason=verdict.reason
            )

    # Boundaries

    def end_events(self) -> int:
        """End the events to whose answers nothing can be added; returns how many."""
        ending = list(self._parse(self._events.list_ending(_MAX_ENDING)))
        if not ending:
            return 0
        # Read before the rows: those before the watermark are then archived.
        watermarks = self._catalog.watermarks(self._config.lateness)
        ready = []
        for planned in ending:
            lags = {}
            for name, query in self._queries_of(planned.plan).items():
                lags[name] = max(query.lifted.inputs.lag, 0)
            if planned.row.timed_out or may_end(planned.plan, planned.event.ts, watermarks, lags):
                ready.append(planned)
        ended = 0
        for group in self._group(ready):
            with self._forget_on_error(group):
                ended += self._end_group(group)
        return ended

    def _end_group(self, group: Sequence[_PlannedEvent]) -> int:
        if group[0].plan.is_evaluated:
            evaluations = self._evaluate(group, new_rows=False, final=True)
        else:
            evaluations = [_Evaluation(planned, EventState()) for planned in group]
        ended = 0
        for item in evaluations:
            ended += retry_on_deadlock(partial(self._end, item))
        return ended

    def _end(self, item: _Evaluation) -> bool:
        """Store the last evaluation of an event with its boundaries; False: it cannot end now."""
        planned = item.planned
        key = planned.key
        with self._connection.transaction():
            recalls = self._events.lock_for_end(*key, expected=planned.row.evaluations)
            if recalls is None:
                self._states.pop(key, None)
                return False
            if planned.plan.is_evaluated:
                positions = item.positions()
                self._events.record_evaluation(
                    *key, positions=positions, expected=planned.row.evaluations
                )
            is_dropped = self._events.is_dropped(*key)
            self._store_outcome(item, final=True)
            stages = [stage.name for stage in planned.plan.stages]
            names = sorted({*recalls, *planned.plan.recalls, *stages})
            for name in names:
                output = planned.output(name)
                self._streams.append(output, item.changes.get(name, []))
                if is_dropped:
                    self._streams.retract(output)
                self._streams.append(output, [RowChange("boundary", "")])
            self._events.end(*key)
        self._states.pop(key, None)
        self._live.pop(key, None)
        return True

    @property
    def rows_in_memory(self) -> int:
        """The rows of all open events in memory."""
        return sum(state.row_count for state in self._states.values())
