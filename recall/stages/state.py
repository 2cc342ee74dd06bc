"""An open event: its plan, its rows, and the outcome of an evaluation. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from recall.event_plans import EventPlan, Stage
from recall.ledger import EventOutput
from recall.requests import RecallEvent
from recall.revisions import RowChange, apply_change
from recall.stages.conditions import RecallState, Verdict
from sql.stages import RecalledEventRow

Rows = Mapping[str, Any]
EventKey = tuple[str, str, UUID]  # rule, version, event


@dataclass(frozen=True)
class PlannedEvent:
    """An event without boundary. `plan_key`: equal for equal plans of one rule."""

    row: RecalledEventRow
    plan: EventPlan
    plan_key: tuple[str, str]
    event: RecallEvent

    @property
    def key(self) -> EventKey:
        return self.row.rule, self.row.version, self.row.eid

    @property
    def is_first_evaluation(self) -> bool:
        """Whether it was never evaluated."""
        return self.row.evaluations == 0

    def output(self, name: str) -> EventOutput:
        """The rows of one of its recalls or stages."""
        row = self.row
        return EventOutput(row.rule, row.version, name, row.eid, self.event.ts)


@dataclass
class EventState:
    """The rows by recall or stage and key, and the last revision of each that they contain.

    `evaluations`: the number of the evaluation after which the rows of stages were stored.
    `errors`: of the stages that have failed. `tables`: the contexts and surroundings that stages
    read, by name; None: not loaded. `tables_are_settled`: whether they do not change any more.
    `answers`: the recalls with their last answers, if something reads these.
    """

    evaluations: int = 0
    rows: dict[str, dict[str, Rows]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    tables: Mapping[str, Sequence[Rows]] | None = None
    tables_are_settled: bool = False
    answers: Mapping[str, RecallState] = field(default_factory=dict)

    def apply(self, name: str, sequence: int, change: RowChange) -> None:
        """Apply the next revision of a recall or stage."""
        apply_change(self.rows.setdefault(name, {}), change)
        self.sequences[name] = sequence

    def replace_tables(self, tables: Mapping[str, Sequence[Rows]]) -> set[str]:
        """Replace the contexts and surroundings; returns the names of those that have changed."""
        before = self.tables
        self.tables = tables
        if before is None:
            return set(tables)
        return {name for name, rows in tables.items() if rows != before.get(name)}

    def replace_answers(
        self, answers: Mapping[str, RecallState], covered: Iterable[str]
    ) -> set[str]:
        """Replace the last answers; returns those of some recalls that have changed."""
        before, self.answers = self.answers, answers
        return {name for name in covered if answers.get(name) != before.get(name)}

    def rows_of(self, name: str) -> list[Rows]:
        return list(self.rows.get(name, {}).values())

    @property
    def row_count(self) -> int:
        """The rows in memory."""
        tables = self.tables or {}
        return sum(map(len, self.rows.values())) + sum(map(len, tables.values()))


@dataclass
class EventOutcome:
    """The outcome of an evaluation: changes by stage, and what to store with them.

    `evaluated`: the stages that were evaluated. `has_new_inputs`: whether there were revisions, or
    a stage has failed. `append_counts`: of the live streams, as they were read.
    """

    planned: PlannedEvent
    state: EventState
    changes: dict[str, list[RowChange]] = field(default_factory=dict)
    evaluated: set[str] = field(default_factory=set)
    verdict: Verdict | None = None
    append_counts: Mapping[str, int] = field(default_factory=dict)
    has_new_inputs: bool = False

    @property
    def is_worth_storing(self) -> bool:
        return self.has_new_inputs or bool(self.changes) or bool(self.verdict)

    @property
    def may_read_more(self) -> bool:
        """Whether something may be read without a row revision: live rows, contexts, a coverage."""
        plan = self.planned.plan
        if context_tables(plan) and not self.state.tables_are_settled:
            return True
        answers = self.state.answers
        if any(name in answers and answers[name].is_open for name in plan.covered_recalls):
            return True
        return any(stage.reads_live_rows for stage in plan.stages)

    def positions(self) -> dict[str, Any]:
        """Over which revisions and appends the event was evaluated."""
        recalls = self.planned.plan.recalls
        sequences = self.state.sequences
        return {
            "recalls": {name: sequences[name] for name in recalls if name in sequences},
            "appends": dict(self.append_counts),
        }


def changed_recalls(
    plan: EventPlan, state: EventState, evaluated: Mapping[str, int]
) -> frozenset[str]:
    """The recalls with revisions since the last evaluation; `evaluated`: numbers by recall."""
    changed = set()
    for name in plan.recalls:
        if state.sequences.get(name, 0) > evaluated.get(name, 0):
            changed.add(name)
    return frozenset(changed)


def context_tables(plan: EventPlan) -> frozenset[str]:
    """The contexts and surroundings that the stages of a plan read."""
    outputs = {*plan.recalls, *(stage.name for stage in plan.stages)}
    names = {name for stage in plan.stages for name in stage.inputs}
    return frozenset(names - outputs)


def is_due(stage: Stage, changed: Iterable[str], changed_streams: Iterable[str]) -> bool:
    """Whether a stage must be evaluated again.

    `changed`: the recalls, stages and contexts whose rows have changed; `changed_streams`: the live streams
    with new rows that may matter.
    """
    return not stage.inputs.keys().isdisjoint(changed) or not stage.streams.keys().isdisjoint(
        changed_streams
    )


def carry_key(
    rows: Sequence[Rows], key: Mapping[str, Any], key_types: Mapping[str, str]
) -> list[Rows]:
    """Rows with the key columns of their event, unless they have columns of these names."""
    return [{**{name: key.get(name) for name in key_types}, **row} for row in rows]


def may_end(
    plan: EventPlan, event_ts: int, watermarks: Mapping[str, int | None], lags: Mapping[str, int]
) -> bool:
    """Whether all live rows that belong to an event are there.

    `watermarks`: of the streams; None: nothing was read. `lags`: by stage, how much later than a
    row its inputs may be. All in microseconds.
    """
    for stage in plan.stages:
        end = event_ts + stage.delay + lags.get(stage.name, 0)
        for stream in stage.streams:
            watermark = watermarks.get(stream)
            if watermark is None or watermark <= end:
                return False
    return True
