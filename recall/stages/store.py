"""Stores evaluations of events, and their boundaries."""

from collections.abc import Iterable, Sequence

import sql
from recall.ledger import RevisionStreams
from recall.revisions import RowChange
from recall.stages.state import EventKey, EventOutcome
from sql.stages import AppendedRevisions, NewStageRow, RecalledEventGateway


class EvaluationStore:
    """Writes what was evaluated, with the positions that it is over, in one transaction."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection
        self._events = RecalledEventGateway(connection)
        self._streams = RevisionStreams(connection)

    def store(
        self, outcomes: Sequence[EventOutcome]
    ) -> tuple[list[EventKey], list[AppendedRevisions]]:
        """Store evaluations of one rule.

        Returns the events that others have evaluated since, and the revisions of the stages.
        """
        with self._connection.transaction():
            recorded = self._record(outcomes)
            current = [item for item in outcomes if item.planned.key in recorded]
            self._store_outcomes(current, final=False)
            changes = []
            for item in current:
                for name, stage_changes in item.changes.items():
                    changes.append((item.planned.output(name), stage_changes))
            new_revisions = self._streams.append_all(changes)
        for item in current:
            item.state.evaluations = item.planned.row.evaluations + 1
        outdated_keys = [item.planned.key for item in outcomes if item.planned.key not in recorded]
        return outdated_keys, new_revisions

    def _record(self, outcomes: Sequence[EventOutcome]) -> set[EventKey]:
        evaluations = []
        for item in sorted(outcomes, key=lambda item: item.planned.key):
            row = item.planned.row
            evaluations.append((row.version, row.eid, item.positions(), row.evaluations))
        return self._events.record_evaluations(outcomes[0].planned.row.rule, evaluations)

    def _store_outcomes(self, outcomes: Iterable[EventOutcome], *, final: bool) -> None:
        """Store the states of stages and the verdicts."""
        stages = []
        for item in outcomes:
            rule, version, eid = item.planned.key
            for stage in item.planned.plan.stages:
                name = stage.name
                error = item.state.errors.get(name)
                state = "done" if final else "running"
                if error is not None:
                    state = "failed"
                if final or name in item.evaluated:
                    row = NewStageRow(
                        rule=rule,
                        version=version,
                        eid=eid,
                        name=name,
                        state=state,
                        error=error,
                        has_changed=name in item.changes,
                    )
                    stages.append(row)
            verdict = item.verdict
            if verdict is not None:
                self._events.set_history(
                    rule,
                    version,
                    eid,
                    history=verdict.history,
                    final=verdict.final,
                    reason=verdict.reason,
                )
        if stages:
            self._events.put_stages(stages)

    def end(self, item: EventOutcome) -> bool:
        """Store the last evaluation of an event with its boundaries; False: it cannot end now."""
        planned = item.planned
        key = planned.key
        with self._connection.transaction():
            recalls = self._events.lock_for_end(*key, expected=planned.row.evaluations)
            if recalls is None:
                return False
            if planned.plan.is_evaluated:
                self._record([item])
            is_dropped = self._events.is_dropped(*key)
            self._store_outcomes([item], final=True)
            stages = [stage.name for stage in planned.plan.stages]
            for name in sorted({*recalls, *planned.plan.recalls, *stages}):
                output = planned.output(name)
                changes = item.changes.get(name, [])
                if is_dropped:
                    self._streams.append(output, changes)
                    self._streams.retract(output)
                    changes = []
                self._streams.append(output, [*changes, RowChange("boundary", "")])
            self._events.end(*key)
        return True
