"""Loads the rows that stages read about open events, and keeps them in memory."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from cachetools import LRUCache

import sql
from recall.revisions import RowChange, context_column
from recall.stages.evaluation import StageInput
from recall.stages.state import (
    EventKey,
    EventOutcome,
    EventState,
    PlannedEvent,
    carry_key,
    context_tables,
)
from recall.stages.statements import StageQuery
from sql.events import ContextGateway, EventGateway
from sql.stages import RecalledEventGateway, RowRevisionGateway

_MAX_STATES = 20_000  # events whose rows are in memory


class EventRows:
    """The rows of open events: of recalls and stages from revisions, of contexts as stored."""

    def __init__(self, connection: sql.Connection) -> None:
        self._events = RecalledEventGateway(connection)
        self._revisions = RowRevisionGateway(connection)
        self._contexts = ContextGateway(connection)
        self._past_events = EventGateway(connection)
        self._states: LRUCache[EventKey, EventState] = LRUCache(_MAX_STATES)

    @property
    def row_count(self) -> int:
        """The rows of all events in memory."""
        return sum(state.row_count for state in self._states.values())

    def forget(self, key: EventKey) -> None:
        """Release the rows of an event; if needed, they are loaded again."""
        self._states.pop(key, None)

    def load(self, group: Sequence[PlannedEvent]) -> list[EventOutcome]:
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
            EventOutcome(planned, states[planned.row.version, planned.row.eid]) for planned in group
        ]

    def load_contexts(self, evaluations: Sequence[EventOutcome]) -> dict[EventKey, set[str]]:
        """Load the contexts and surroundings that stages read, unless those in memory are settled.

        Returns the names of those that have changed, by event.
        """
        names = context_tables(evaluations[0].planned.plan)
        open_states = {
            item.planned.key: item.state
            for item in evaluations
            if not item.state.tables_are_settled
        }
        if not names or not open_states:
            return {}
        stored_contexts = {}
        for row in self._contexts.list_of_events([key[2] for key in open_states]):
            stored_contexts[row.rule, row.version, row.eid] = row
        changed_names = {}
        for key, state in open_states.items():
            tables: dict[str, Sequence[Mapping[str, Any]]] = dict.fromkeys(names, ())
            context = stored_contexts.get(key)
            if context is not None:
                state.tables_are_settled = context.settled
                for name in names:
                    rows = context.contexts.get(name) or context.surroundings.get(name)
                    tables[name] = rows or ()
            changed_names[key] = state.replace_tables(tables)
        return changed_names

    def load_inputs(
        self, query: StageQuery, evaluations: Sequence[EventOutcome]
    ) -> list[StageInput]:
        """What a stage reads for some events of one plan, live rows apart.

        Contexts and surroundings must have been loaded.
        """
        plan = evaluations[0].planned.plan
        own_tables = context_tables(plan)
        past_events = self._load_past_events(query, evaluations)
        inputs = []
        for item in evaluations:
            tables: dict[str, Sequence[Mapping[str, Any]]] = {}
            for name in query.stage.inputs:
                rows: Sequence[Mapping[str, Any]] = item.state.rows_of(name)
                if name in query.stage.coverage and name in item.state.answers:
                    rows = item.state.answers[name].cover_rows(rows)
                if name in plan.similar:
                    tables[name] = [{**past_events.get(row["past_eid"], {}), **row} for row in rows]
                elif name in own_tables:
                    tables[name] = (item.state.tables or {}).get(name, [])
                else:
                    tables[name] = carry_key(rows, item.planned.event.key, plan.key_types)
            inputs.append(StageInput(item.planned.event, tables))
        return inputs

    def _load_past_events(
        self, query: StageQuery, evaluations: Sequence[EventOutcome]
    ) -> dict[str, Mapping[str, Any]]:
        """What rows of similarity recalls carry of past events that are still stored, by ID."""
        planned = evaluations[0].planned
        eids = set()
        for name in query.stage.inputs.keys() & set(planned.plan.similar):
            for item in evaluations:
                eids |= {UUID(row["past_eid"]) for row in item.state.rows_of(name)}
        past_events: dict[str, Mapping[str, Any]] = {}
        if not eids:
            return past_events
        for past in self._past_events.list_past(sorted(eids)):
            if past.rule == planned.row.rule:
                contexts = {
                    context_column(name): orjson.dumps(rows).decode()
                    for name, rows in (past.contexts or {}).items()
                }
                past_events[str(past.eid)] = {**contexts, **past.attributes}
        return past_events
