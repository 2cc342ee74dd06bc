"""History queries: a piece of history read for some tasks, in a thread of its own."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pyarrow as pa
import structlog

from recall.engines import (
    AnswerRows,
    EngineRouter,
    EventTables,
    PartialQuery,
    Template,
    merge_partials,
)
from recall.errors import LimitExceeded
from recall.ledger import Revision, Task, TurnResult
from recall.operators import estimate_rows, piece_seconds
from recall.requests import RecallEvent, compute_coverage
from recall.worker.active_tasks import ActiveTask
from recall.worker.query_slots import QuerySlot, summarise_error

_LOG = structlog.get_logger()


@dataclass(frozen=True)
class ReadBatch:
    """Tasks of one question, that read the same of history next; and the rows of the rule's own tables for them."""

    active_tasks: list[ActiveTask]
    event_tables: EventTables

    @property
    def template(self) -> Template:
        """What they ask."""
        template = self.active_tasks[0].template
        assert template is not None
        return template

    @property
    def partial_query(self) -> PartialQuery:
        """What is to be read for those that have not come to the end."""
        return PartialQuery(
            self.template,
            [
                (work.task.event, work.turn_piece())
                for work in self.active_tasks
                if work.pieces_left
            ],
            self.event_tables,
        )


def read_batches(slot: QuerySlot, batches: Sequence[ReadBatch]) -> list[TurnResult]:
    """Read the next piece of some tasks, in one scan where there are several questions. What fails is tried for each
    question by itself, then for each task."""
    began = time.monotonic()
    try:
        found, seen = _query_partial_answers(
            slot.engines, [reading.partial_query for reading in batches]
        )
    except Exception as fault:
        slot.raise_if_interrupted(fault)
        if len(batches) == 1:
            return _isolate_failure(slot, batches[0], fault, began)
        return [step for reading in batches for step in read_batches(slot, [reading])]
    each = (time.monotonic() - began) / len(batches)
    return [
        step
        for reading, partial in zip(batches, found, strict=True)
        for step in _merge_partial_answers(slot, reading, partial, seen, time.monotonic() - each)
    ]


def _merge_partial_answers(
    asking: QuerySlot,
    reading: ReadBatch,
    partial: Mapping[str, pa.Table],
    seen: dict[str, int],
    began: float,
) -> list[TurnResult]:
    """The tasks of one question after what was found for them."""
    works, template = reading.active_tasks, reading.template
    found = {work.task.id: partial.get(str(work.task.event.eid)) for work in works}
    try:
        held = {
            w.task.id: merge_partials(
                template, _deserialise(w.task.partial_answer), found[w.task.id], _turn_seconds(w)
            )
            for w in works
        }
    except Exception as fault:
        asking.raise_if_interrupted(fault)
        return _isolate_failure(asking, reading, fault, began)
    steps = _build_results(asking, reading, found, held, began)
    return [replace(step, append_counts=seen) for step in steps]


def _isolate_failure(
    asking: QuerySlot, reading: ReadBatch, fault: Exception, began: float
) -> list[TurnResult]:
    """Some tasks of one question, over which it fell: each by itself, with less to read, or told so."""
    works = reading.active_tasks
    if len(works) > 1:
        return [
            step
            for work in works
            for step in read_batches(asking, [ReadBatch([work], reading.event_tables)])
        ]
    (work,) = works
    if isinstance(fault, LimitExceeded):
        return [_limit_exceeded_result(work.task, fault, time.monotonic() - began)]
    if work.turn_end > work.task.next + 1:
        work.turn_end = work.task.next + 1  # not all of these pieces need be at fault
        return read_batches(asking, [reading])
    error = summarise_error(fault)
    _LOG.error("history query failed", action="piece_failed", rule=work.task.rule, error=error)
    return _build_results(
        asking,
        reading,
        {work.task.id: None},
        {work.task.id: _deserialise(work.task.partial_answer)},
        began,
        error,
    )


def _build_results(
    asking: QuerySlot,
    reading: ReadBatch,
    found: Mapping[UUID, pa.Table | None],
    held: Mapping[UUID, pa.Table | None],
    began: float,
    error: str | None = None,
) -> list[TurnResult]:
    """The tasks of one question with their new partial answers, `held`; of which `found` is new."""
    works = reading.active_tasks
    due = [work for work in works if work.is_answer_due(time.monotonic())]
    answers, faults = _compute_answers(
        asking,
        reading.template,
        [(w.task.event, held[w.task.id]) for w in due],
        reading.event_tables,
    )
    took = time.monotonic() - began
    steps = []
    for work in works:
        task, more = work.task, found[work.task.id]
        eid = str(task.event.eid)
        revision = answers.get(eid, []) if work in due and eid not in faults else None
        rows = 0 if more is None else len(more)
        step = _build_result(
            work, held[task.id], rows, took / len(works), revision, error, faults.get(eid)
        )
        steps.append(replace(step, query_seconds=took))
    return steps


def _query_partial_answers(
    engines: EngineRouter, asks: Sequence[PartialQuery]
) -> tuple[list[dict[str, pa.Table]], dict[str, int]]:
    """The partial answers of some events to each question, and of how many appends of each stream."""
    left = [ask for ask in asks if ask.event_pieces]
    if not left:
        return [{} for _ in asks], {}
    with engines.snapshot(left) as seen:
        found = iter(engines.compute_partials(left))
        return [next(found) if ask.event_pieces else {} for ask in asks], seen


def _compute_answers(
    asking: QuerySlot,
    template: Template,
    held: Sequence[tuple[RecallEvent, pa.Table | None]],
    own: EventTables,
) -> tuple[dict[str, AnswerRows], dict[str, str]]:
    """What the merged partial answers say, and for which events that cannot be computed, and why."""
    try:
        return (asking.engines.compute_answers(template, held, own) if held else {}), {}
    except Exception as fault:
        asking.raise_if_interrupted(fault)
        if len(held) == 1:
            return {}, {str(held[0][0].eid): summarise_error(fault)}
    answers: dict[str, AnswerRows] = {}
    faults: dict[str, str] = {}
    for one in held:
        found, fault_of_one = _compute_answers(asking, template, [one], own)
        answers |= found
        faults |= fault_of_one
    return answers, faults


def _build_result(
    work: ActiveTask,
    held: pa.Table | None,
    rows: int,
    seconds: float,
    answer: AnswerRows | None,
    not_read: str | None,
    not_answered: str | None,
) -> TurnResult:
    """The task after its next pieces. Where no piece has given anything, or the end has no answer, it has failed."""
    task, upto = work.task, work.turn_end
    assert task.pieces is not None and work.template is not None
    failed = task.failed + (upto - task.next if not_read is not None else 0)
    covered = compute_coverage(task.pieces, upto, failed, task.skipped)
    error = not_read or not_answered
    if (
        covered.final
        and error is not None
        and (answer is None or failed == len(task.pieces) - task.skipped)
    ):
        return TurnResult(task, upto, failed, None, rows, rows, seconds, "failed", error=error)
    revision = None
    if answer is not None:
        likely = estimate_rows(
            work.template.split, held, answer, sum(piece_seconds(task.pieces)), not covered.partial
        )
        revision = Revision(covered, answer, likely)
    kept = None if covered.final else _serialise(held)
    ended = "done" if covered.final else "running"
    return TurnResult(task, upto, failed, kept, rows, rows, seconds, ended, revision, error)


def _limit_exceeded_result(task: Task, fault: LimitExceeded, seconds: float) -> TurnResult:
    """The end of a task that holds more than it may: reading on would only add to it."""
    error = f"recall {task.recall} of rule {task.rule}: {fault}"
    _LOG.error(
        "recall exceeds its limit",
        action="recall_exceeded",
        rule=task.rule,
        recall=task.recall,
        error=error,
    )
    return TurnResult(
        task, task.next, task.failed, None, 0, 0, seconds, "failed", error=error, exceeded=True
    )


def _turn_seconds(work: ActiveTask) -> float:
    """Of what the query at hand reads, in seconds."""
    assert work.task.pieces is not None
    return sum(piece_seconds(work.task.pieces)[work.task.next : work.turn_end])


def _deserialise(held: bytes | None) -> pa.Table | None:
    return None if held is None else pa.ipc.open_stream(held).read_all()


def _serialise(held: pa.Table | None) -> bytes | None:
    if held is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, held.schema) as writer:
        writer.write_table(held)
    written: bytes = sink.getvalue().to_pybytes()
    return written
