"""Stores evaluations of events, and their boundaries."""

from collections.abc import Sequence

import sql
from recall.ledger import RevisionStreams
from recall.revisions import RowChange
from recall.stages.state import EventKey, EventOutcome


class EvaluationStore:
    """Writes what was evaluated, with the positions that it is over, in one transaction."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection
        self._events = sql.RecalledEventGateway(connection)
        self._streams = RevisionStreams(connection)

    def store(self, evaluations: Sequence[EventOutcome]) -> list[EventKey]:
        """Store evaluations; returns the events that another process has evaluated since."""
        stale: list[EventKey] = []
        stored: list[EventOutcome] = []
        with self._connection.transaction():
            for item in sorted(evaluations, key=lambda item: item.planned.key):
                planned = item.planned
                is_current = self._events.record_evaluation(
                    *planned.key, positions=item.positions(), expected=planned.row.evaluations
                )
                if is_current:
                    self._store_outcome(item, final=False)
                    stored.append(item)
                else:
                    stale.append(planned.key)
            self._append_changes(stored)
        for item in stored:
            item.state.evaluations = item.planned.row.evaluations + 1
        return stale

    def _append_changes(self, evaluations: Sequence[EventOutcome]) -> None:
        """Append to the streams of stages, in the order in which all transactions lock them."""
        outputs = []
        for item in evaluations:
            for name, changes in item.changes.items():
                outputs.append((item.planned.output(name), changes))
        outputs.sort(key=lambda pair: (pair[0].rule, pair[0].name))
        for output, changes in outputs:
            self._streams.append(output, changes)

    def _store_outcome(self, item: EventOutcome, *, final: bool) -> None:
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

    def end(self, item: EventOutcome) -> bool:
        """Store the last evaluation of an event with its boundaries; False: it cannot end now."""
        planned = item.planned
        key = planned.key
        with self._connection.transaction():
            recalls = self._events.lock_for_end(*key, expected=planned.row.evaluations)
            if recalls is None:
                return False
            if planned.plan.is_evaluated:
                self._events.record_evaluation(
                    *key, positions=item.positions(), expected=planned.row.evaluations
                )
            is_dropped = self._events.is_dropped(*key)
            self._store_outcome(item, final=True)
            stages = [stage.name for stage in planned.plan.stages]
            for name in sorted({*recalls, *planned.plan.recalls, *stages}):
                output = planned.output(name)
                self._streams.append(output, item.changes.get(name, []))
                if is_dropped:
                    self._streams.retract(output)
                self._streams.append(output, [RowChange("boundary", "")])
            self._events.end(*key)
        return True
