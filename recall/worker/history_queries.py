"""History queries: read a piece of history for some tasks. Runs in worker threads."""

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
    """Tasks with the same query that read the same chunks next.

    `event_tables`: the rows of contexts and surroundings that the query names.
    """

    active_tasks: list[ActiveTask]
    event_tables: EventTables

    @property
    def template(self) -> Template:
        """The query of the tasks."""
        template = self.active_tasks[0].template
        assert template is not None
        return template

    @property
    def partial_query(self) -> PartialQuery:
        """What to read for the tasks that have pieces left."""
        event_pieces = [
            (active_task.task.event, active_task.turn_piece())
            for active_task in self.active_tasks
            if active_task.pieces_left
        ]
        return PartialQuery(self.template, event_pieces, self.event_tables)


def read_batches(slot: QuerySlot, batches: Sequence[ReadBatch]) -> list[TurnResult]:
    """Run one turn of all tasks, in one scan if there are several queries.

    If that fails, it is repeated for each query, then for each task.
    """
    began = time.monotonic()
    try:
        partial_queries = [batch.partial_query for batch in batches]
        partials, append_counts = _query_partial_answers(slot.engines, partial_queries)
    except Exception as error:
        slot.raise_if_interrupted(error)
        if len(batches) == 1:
            return _isolate_failure(slot, batches[0], error, began)
        results = []
        for batch in batches:
            results += read_batches(slot, [batch])
        return results
    seconds_per_batch = (time.monotonic() - began) / len(batches)
    results = []
    for batch, batch_partials in zip(batches, partials, strict=True):
        batch_began = time.monotonic() - seconds_per_batch
        results += _merge_partial_answers(slot, batch, batch_partials, append_counts, batch_began)
    return results


def _merge_partial_answers(
    slot: QuerySlot,
    batch: ReadBatch,
    partials_by_eid: Mapping[str, pa.Table],
    append_counts: Mapping[str, int],
    began: float,
) -> list[TurnResult]:
    """Merge what was read into the partial answers of the tasks."""
    partials: dict[UUID, pa.Table | None] = {}
    merged: dict[UUID, pa.Table | None] = {}
    try:
        for active_task in batch.active_tasks:
            task = active_task.task
            partials[task.id] = partials_by_eid.get(str(task.event.eid))
            merged[task.id] = merge_partials(
                batch.template,
                _deserialise(task.partial_answer),
                partials[task.id],
                _turn_seconds(active_task),
            )
    except Exception as error:
        slot.raise_if_interrupted(error)
        return _isolate_failure(slot, batch, error, began)
    results = _build_results(slot, batch, partials, merged, began)
    return [replace(result, append_counts=append_counts) for result in results]


def _isolate_failure(
    slot: QuerySlot, batch: ReadBatch, error: Exception, began: float
) -> list[TurnResult]:
    """Repeat a failed query for each task, then for one piece; then record the error."""
    if len(batch.active_tasks) > 1:
        results = []
        for active_task in batch.active_tasks:
            results += read_batches(slot, [ReadBatch([active_task], batch.event_tables)])
        return results
    (active_task,) = batch.active_tasks
    task = active_task.task
    if isinstance(error, LimitExceeded):
        return [_limit_exceeded_result(task, error, time.monotonic() - began)]
    if active_task.turn_end > task.next + 1:
        active_task.turn_end = task.next + 1  # perhaps only one of the pieces fails
        return read_batches(slot, [batch])
    message = summarise_error(error)
    _LOG.error("history query failed", action="piece_failed", rule=task.rule, error=message)
    unchanged = {task.id: _deserialise(task.partial_answer)}
    return _build_results(slot, batch, {task.id: None}, unchanged, began, message)


def _build_results(
    slot: QuerySlot,
    batch: ReadBatch,
    partials: Mapping[UUID, pa.Table | None],
    merged: Mapping[UUID, pa.Table | None],
    began: float,
    read_error: str | None = None,
) -> list[TurnResult]:
    """The results of one query, by task ID: what was read, and the new partial answers."""
    now = time.monotonic()
    due = [active_task.task for active_task in batch.active_tasks if active_task.is_answer_due(now)]
    answers, errors = _compute_answers(
        slot,
        batch.template,
        [(task.event, merged[task.id]) for task in due],
        batch.event_tables,
    )
    seconds = time.monotonic() - began
    due_ids = {task.id for task in due}
    results = []
    for active_task in batch.active_tasks:
        task = active_task.task
        eid = str(task.event.eid)
        partial = partials[task.id]
        answer: AnswerRows | None = None
        if task.id in due_ids and eid not in errors:
            answer = answers.get(eid, [])
        result = _build_result(
            active_task,
            merged[task.id],
            rows=0 if partial is None else len(partial),
            seconds=seconds / len(batch.active_tasks),
            answer=answer,
            read_error=read_error,
            answer_error=errors.get(eid),
        )
        results.append(replace(result, query_seconds=seconds))
    return results


def _query_partial_answers(
    engines: EngineRouter, partial_queries: Sequence[PartialQuery]
) -> tuple[list[dict[str, pa.Table]], dict[str, int]]:
    """The partial answers to each query by event, and the appends of each stream that it saw."""
    to_read = [query for query in partial_queries if query.event_pieces]
    if not to_read:
        return [{} for _ in partial_queries], {}
    with engines.snapshot(to_read) as append_counts:
        answers = iter(engines.compute_partials(to_read))
        answers_by_query = [
            next(answers) if query.event_pieces else {} for query in partial_queries
        ]
        return answers_by_query, append_counts


def _compute_answers(
    slot: QuerySlot,
    template: Template,
    partials: Sequence[tuple[RecallEvent, pa.Table | None]],
    event_tables: EventTables,
) -> tuple[dict[str, AnswerRows], dict[str, str]]:
    """The answers of merged partial answers by event, and by event the errors of the others.

    A failure is isolated by computing the answers one by one.
    """
    if not partials:
        return {}, {}
    try:
        return slot.engines.compute_answers(template, partials, event_tables), {}
    except Exception as error:
        slot.raise_if_interrupted(error)
        if len(partials) == 1:
            (event, _) = partials[0]
            return {}, {str(event.eid): summarise_error(error)}
    answers: dict[str, AnswerRows] = {}
    errors: dict[str, str] = {}
    for partial in partials:
        event_answers, event_errors = _compute_answers(slot, template, [partial], event_tables)
        answers |= event_answers
        errors |= event_errors
    return answers, errors


def _build_result(
    active_task: ActiveTask,
    partial_answer: pa.Table | None,
    *,
    rows: int,
    seconds: float,
    answer: AnswerRows | None,
    read_error: str | None,
    answer_error: str | None,
) -> TurnResult:
    """The result of one task. It fails if no piece could be read, or if the end has no answer."""
    task, turn_end = active_task.task, active_task.turn_end
    assert task.pieces is not None and active_task.template is not None
    failed = task.failed
    if read_error is not None:
        failed += turn_end - task.next
    coverage = compute_coverage(task.pieces, turn_end, failed, task.skipped)
    error = read_error or answer_error
    nothing_read = failed == len(task.pieces) - task.skipped
    state = "running"
    revision: Revision | None = None
    if coverage.final and error is not None and (answer is None or nothing_read):
        # Without its revision, the error is the outcome of the task.
        state = "failed"
    else:
        if coverage.final:
            state = "done"
        if answer is not None:
            estimates = estimate_rows(
                active_task.template.split,
                partial_answer,
                answer,
                sum(piece_seconds(task.pieces)),
                not coverage.partial,
            )
            revision = Revision(coverage, answer, estimates)
    return TurnResult(
        task=task,
        next=turn_end,
        failed=failed,
        partial_answer=None if coverage.final else _serialise(partial_answer),
        rows=rows,
        results=rows,
        seconds=seconds,
        state=state,
        revision=revision,
        error=error,
    )


def _limit_exceeded_result(task: Task, error: LimitExceeded, seconds: float) -> TurnResult:
    """The end of a task whose partial answer is too large: more pieces would only add to it."""
    message = f"recall {task.recall} of rule {task.rule}: {error}"
    _LOG.error(
        "recall exceeds a limit",
        action="recall_limit_exceeded",
        rule=task.rule,
        recall=task.recall,
        error=message,
    )
    return TurnResult(
        task=task,
        next=task.next,
        failed=task.failed,
        partial_answer=None,
        rows=0,
        results=0,
        seconds=seconds,
        state="failed",
        error=message,
        exceeded=True,
    )


def _turn_seconds(active_task: ActiveTask) -> float:
    """How much event time the current turn covers, in seconds."""
    task = active_task.task
    assert task.pieces is not None
    return sum(piece_seconds(task.pieces)[task.next : active_task.turn_end])


def _deserialise(stored: bytes | None) -> pa.Table | None:
    return None if stored is None else pa.ipc.open_stream(stored).read_all()


def _serialise(partial_answer: pa.Table | None) -> bytes | None:
    if partial_answer is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, partial_answer.schema) as writer:
        writer.write_table(partial_answer)
    serialised: bytes = sink.getvalue().to_pybytes()
    return serialised
