"""History queries: read a piece of history for some tasks.

Runs in worker threads, which take values and return values: tasks do not change here.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from recall.ledger import Revision, TurnResult
from recall.operators import estimate_rows, piece_seconds
from recall.requests import RecallEvent, compute_coverage
from recall.scheduling import TurnStatistics, share_query
from recall.worker.active_tasks import TurnTask
from recall.worker.query_slots import QuerySlot, summarise_error

_LOG = structlog.get_logger()


@dataclass(frozen=True)
class ReadBatch:
    """Tasks with the same query that read the same chunks next.

    `event_tables`: the rows of contexts and surroundings that the query names.
    """

    turns: Sequence[TurnTask]
    event_tables: EventTables

    @property
    def template(self) -> Template:
        """The query of the tasks."""
        template = self.turns[0].active_task.template
        assert template is not None
        return template

    @property
    def partial_query(self) -> PartialQuery:
        """What to read for the tasks that have pieces left."""
        event_pieces = [(turn.spec.event, turn.piece) for turn in self.turns if turn.pieces]
        return PartialQuery(self.template, event_pieces, self.event_tables)


@dataclass(frozen=True)
class _ReadTurn:
    """What was read in the turn of a task, and its new partial answer; None: no matching rows.

    `error`: why nothing could be read.
    """

    turn: TurnTask
    partial: pa.Table | None
    merged: pa.Table | None
    error: str | None = None


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
    reads = []
    try:
        for turn in batch.turns:
            partial = partials_by_eid.get(str(turn.spec.event.eid))
            accumulator = _deserialise(turn.progress.partial_answer)
            merged = merge_partials(batch.template, accumulator, partial, _turn_seconds(turn))
            reads.append(_ReadTurn(turn, partial, merged))
    except Exception as error:
        slot.raise_if_interrupted(error)
        return _isolate_failure(slot, batch, error, began)
    results = _build_results(slot, batch, reads, began)
    return [replace(result, append_counts=append_counts) for result in results]


def _isolate_failure(
    slot: QuerySlot, batch: ReadBatch, error: Exception, began: float
) -> list[TurnResult]:
    """Repeat a failed query for each task, then for one piece; then record the error."""
    if len(batch.turns) > 1:
        results = []
        for turn in batch.turns:
            results += read_batches(slot, [replace(batch, turns=[turn])])
        return results
    (turn,) = batch.turns
    if isinstance(error, LimitExceeded):
        return [_limit_exceeded_result(turn, error, time.monotonic() - began)]
    if len(turn.pieces) > 1:
        # Perhaps only one of the pieces fails.
        first_piece = replace(turn, end=turn.progress.next + 1)
        return read_batches(slot, [replace(batch, turns=[first_piece])])
    message = summarise_error(error)
    _LOG.error("history query failed", action="piece_failed", rule=turn.spec.rule, error=message)
    unchanged = _deserialise(turn.progress.partial_answer)
    return _build_results(slot, batch, [_ReadTurn(turn, None, unchanged, message)], began)


def _build_results(
    slot: QuerySlot, batch: ReadBatch, reads: Sequence[_ReadTurn], began: float
) -> list[TurnResult]:
    """The results of the tasks of one query."""
    now = time.monotonic()
    due = [read for read in reads if read.turn.is_answer_due(now)]
    answers, errors = _compute_answers(
        slot,
        batch.template,
        [(read.turn.spec.event, read.merged) for read in due],
        batch.event_tables,
    )
    rows = [0 if read.partial is None else len(read.partial) for read in reads]
    statistics = share_query(
        time.monotonic() - began,
        pieces=[len(read.turn.pieces) for read in reads],
        rows=rows,
        results=rows,
    )
    due_eids = {str(read.turn.spec.event.eid) for read in due}
    results = []
    for read, turn_statistics in zip(reads, statistics, strict=True):
        eid = str(read.turn.spec.event.eid)
        answer: AnswerRows | None = None
        if eid in due_eids and eid not in errors:
            answer = answers.get(eid, [])
        results.append(_build_result(read, turn_statistics, answer, errors.get(eid)))
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
    read: _ReadTurn,
    statistics: TurnStatistics,
    answer: AnswerRows | None,
    answer_error: str | None,
) -> TurnResult:
    """The result of one task. It fails if no piece could be read, or if the end has no answer."""
    turn, progress, pieces = read.turn, read.turn.progress, read.turn.active_task.pieces
    template = turn.active_task.template
    assert template is not None
    failed = progress.failed
    if read.error is not None:
        failed += len(turn.pieces)
    coverage = compute_coverage(pieces, turn.end, failed, progress.skipped)
    error = read.error or answer_error
    nothing_read = failed == len(pieces) - progress.skipped
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
                template.split,
                read.merged,
                answer,
                sum(piece_seconds(pieces)),
                not coverage.partial,
            )
            revision = Revision(coverage, answer, estimates)
    return TurnResult(
        next=turn.end,
        failed=failed,
        partial_answer=None if coverage.final else _serialise(read.merged),
        statistics=statistics,
        state=state,
        revision=revision,
        error=error,
    )


def _limit_exceeded_result(turn: TurnTask, error: LimitExceeded, seconds: float) -> TurnResult:
    """The end of a task whose partial answer is too large: more pieces would only add to it."""
    spec = turn.spec
    message = f"recall {spec.recall} of rule {spec.rule}: {error}"
    _LOG.error(
        "recall exceeds a limit",
        action="recall_limit_exceeded",
        rule=spec.rule,
        recall=spec.recall,
        error=message,
    )
    return TurnResult.failure(turn.progress, message, exceeded=True, seconds=seconds)


def _turn_seconds(turn: TurnTask) -> float:
    """How much event time the turn covers, in seconds."""
    seconds = piece_seconds(turn.active_task.pieces)
    return sum(seconds[turn.progress.next : turn.end])


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
