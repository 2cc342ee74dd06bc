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
    EventTables,
    MergedPartials,
    PartialQuery,
    RelationDigests,
    Template,
    merge_partials,
)
from recall.engines.isolation import run_isolated, split_in_halves, split_into_items
from recall.engines.routing import EngineRouter
from recall.errors import LimitExceeded
from recall.ledger import Revision, TurnResult
from recall.operators import estimate_rows, read_summarised, with_summarised
from recall.requests import compute_coverage, end_coverage, relate_to_request
from recall.scheduling import TurnStatistics, share_query
from recall.summaries import SummarisedPartials, SummaryStore, compute_partials
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
        event_pieces = []
        for turn in self.turns:
            piece = turn.piece
            if piece is not None:
                event_pieces.append((turn.spec.event, piece))
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

    @property
    def is_complete(self) -> bool:
        """Whether older history cannot change the answer: it has as many rows as are wanted.

        Not if a piece has failed: its rows may belong to the answer.
        """
        template, progress = self.turn.active_task.template, self.turn.progress
        assert template is not None
        if not template.split.newest_first or template.question.order != "newest":
            return False
        if self.merged is None or self.error is not None or progress.failed:
            return False
        return len(self.merged) >= (template.split.limit or 0)


@dataclass(frozen=True)
class _ReadBatches:
    """What was read for the tasks of each query; None where it could not be merged.

    `append_counts`: of each stream, as it was read. `digests`: for each query, by event ID, of the
    relations whose versions are not stored. `seconds`: for each of the queries.
    """

    reads_by_batch: Sequence[Sequence[_ReadTurn] | None]
    append_counts: Mapping[str, int]
    digests: Sequence[RelationDigests]
    seconds: float


def read_batches(
    slot: QuerySlot, batches: Sequence[ReadBatch], summaries: SummaryStore | None = None
) -> list[TurnResult]:
    """Run one turn of all tasks, in one scan if there are several queries.

    `summaries`: what they answer is not read; None: there are none.

    If that fails, it is repeated for each query, then for each task, then for its first piece. What
    was read for a query is not read again because that of another query cannot be merged.
    """
    began = time.monotonic()

    def read(part: Sequence[ReadBatch]) -> _ReadBatches:
        nonlocal began
        began = time.monotonic()
        digests = [_digest_relations(slot.engines, batch) for batch in part]
        partials, append_counts = _query_partial_answers(
            slot.engines, [batch.partial_query for batch in part], summaries
        )
        reads: list[Sequence[_ReadTurn] | None] = []
        for batch, answers in zip(part, partials, strict=True):
            try:
                reads.append(_merge_partial_answers(batch, answers))
            except Exception as error:
                slot.raise_if_interrupted(error)
                if len(part) == 1:
                    raise
                reads.append(None)
        seconds = (time.monotonic() - began) / len(part)
        return _ReadBatches(reads, append_counts, digests, seconds)

    def split(part: Sequence[ReadBatch], error: Exception) -> Sequence[Sequence[ReadBatch]]:
        slot.raise_if_interrupted(error)
        return _split_batches(part, error)

    results: list[TurnResult] = []
    for part, outcome in run_isolated(batches, read, (Exception,), split):
        if isinstance(outcome, Exception):
            results += _build_failure(slot, part[0], outcome, began)
            continue
        for batch, reads, digests in zip(
            part, outcome.reads_by_batch, outcome.digests, strict=True
        ):
            if reads is None:
                results += read_batches(slot, [batch], summaries)
                continue
            batch_began = time.monotonic() - outcome.seconds
            batch_results = _build_results(slot, batch, reads, batch_began)
            for turn_read, result in zip(reads, batch_results, strict=True):
                digests_of_event = digests.get(turn_read.turn.spec.event.eid, {})
                append_counts = {**outcome.append_counts, **digests_of_event}
                results.append(replace(result, append_counts=append_counts))
    return results


def _digest_relations(engines: EngineRouter, batch: ReadBatch) -> RelationDigests:
    return engines.spark.digest_relations(batch.template, [turn.spec.event for turn in batch.turns])


def _split_batches(batches: Sequence[ReadBatch], error: Exception) -> Sequence[Sequence[ReadBatch]]:
    """Each query; the tasks of the only query; the first piece of the only task."""
    if len(batches) > 1:
        return split_into_items(batches)
    (batch,) = batches
    if len(batch.turns) > 1:
        return [[replace(batch, turns=[turn])] for turn in batch.turns]
    (turn,) = batch.turns
    is_whole = turn.active_task.is_whole
    if len(turn.pieces) > 1 and not is_whole and not isinstance(error, LimitExceeded):
        # Perhaps only one of the pieces fails.
        first_piece = replace(turn, end=turn.progress.next + 1)
        return [[replace(batch, turns=[first_piece])]]
    return []


def _merge_partial_answers(batch: ReadBatch, answers: SummarisedPartials) -> list[_ReadTurn]:
    """Merge what was read into the partial answers of the tasks."""
    reads = []
    for turn in batch.turns:
        eid = str(turn.spec.event.eid)
        partial = answers.partials.get(eid)
        accumulator = deserialise_partial(turn.progress.partial_answer)
        merged = merge_partials(batch.template, accumulator, partial, _turn_seconds(turn))
        if merged is not None:
            summarised = read_summarised(accumulator) + answers.chunks.get(eid, 0)
            merged = with_summarised(merged, summarised)
        reads.append(_ReadTurn(turn, partial, merged))
    return reads


def _build_failure(
    slot: QuerySlot, batch: ReadBatch, error: Exception, began: float
) -> list[TurnResult]:
    """The result of the only task of a query that failed alone."""
    (turn,) = batch.turns
    if turn.active_task.is_whole:
        # A longer range would fail, too: the answer over the last one stays.
        turn = replace(turn, end=len(turn.active_task.pieces))
    elif isinstance(error, LimitExceeded):
        return [_limit_exceeded_result(turn, error, time.monotonic() - began)]
    message = summarise_error(error)
    _LOG.error("history query failed", action="piece_failed", rule=turn.spec.rule, error=message)
    unchanged = deserialise_partial(turn.progress.partial_answer)
    return _build_results(slot, batch, [_ReadTurn(turn, None, unchanged, message)], began)


def _build_results(
    slot: QuerySlot, batch: ReadBatch, reads: Sequence[_ReadTurn], began: float
) -> list[TurnResult]:
    """The results of the tasks of one query."""
    now = time.monotonic()
    due = [read for read in reads if read.is_complete or read.turn.is_answer_due(now)]
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
    engines: EngineRouter,
    partial_queries: Sequence[PartialQuery],
    summaries: SummaryStore | None,
) -> tuple[list[SummarisedPartials], dict[str, int]]:
    """The partial answers to each query by event, and the appends of each stream that it saw."""
    to_read = [query for query in partial_queries if query.event_pieces]
    if not to_read:
        return [SummarisedPartials() for _ in partial_queries], {}
    with engines.snapshot(to_read) as append_counts:
        answers = iter(compute_partials(engines, summaries, to_read))
        answers_by_query = [
            next(answers) if query.event_pieces else SummarisedPartials()
            for query in partial_queries
        ]
        return answers_by_query, append_counts


def _compute_answers(
    slot: QuerySlot,
    template: Template,
    partials: MergedPartials,
    event_tables: EventTables,
) -> tuple[dict[str, AnswerRows], dict[str, str]]:
    """The answers of merged partial answers by event, and by event the errors of the others."""
    answers: dict[str, AnswerRows] = {}
    errors: dict[str, str] = {}
    if not partials:
        return answers, errors

    def compute(part: MergedPartials) -> dict[str, AnswerRows]:
        return slot.engines.compute_answers(template, part, event_tables)

    def split(part: MergedPartials, error: Exception) -> Sequence[MergedPartials]:
        slot.raise_if_interrupted(error)
        return split_in_halves(part, error)

    for part, outcome in run_isolated(partials, compute, (Exception,), split):
        if isinstance(outcome, Exception):
            ((event, _),) = part
            errors[str(event.eid)] = summarise_error(outcome)
        else:
            answers |= outcome
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
        failed += turn.end - progress.next
    fade = template.question.fade
    lengths = turn.active_task.piece_seconds
    coverage = compute_coverage(pieces, turn.end, failed, progress.skipped, fade, lengths)
    coverage = replace(coverage, unread=turn.unread_values(failed))
    if read.error is not None and turn.active_task.is_whole:
        coverage = end_coverage(pieces, progress.next)
    if read.is_complete:
        coverage = replace(coverage, final=True, partial=False, share=1.0)
    coverage = replace(coverage, summarised=read_summarised(read.merged))
    error = read.error or answer_error
    nothing_read = failed == len(pieces) - progress.skipped
    state = "running"
    next_piece = turn.end
    revision: Revision | None = None
    if coverage.final and error is not None and (answer is None or nothing_read):
        # Without its revision, the error is the outcome of the task.
        state = "failed"
    else:
        if coverage.final and template.question.follow:
            coverage = replace(coverage, final=False)
            next_piece = len(pieces)
        elif coverage.final:
            state = "done"
        if answer is not None:
            estimates = estimate_rows(
                template.split,
                read.merged,
                answer,
                sum(lengths),
                not coverage.partial,
            )
            requested = relate_to_request(coverage, template.question, turn.spec.event, pieces)
            revision = Revision(requested, answer, estimates)
    return TurnResult(
        next=next_piece,
        failed=failed,
        partial_answer=serialise_partial(read.merged) if state == "running" else None,
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
    return sum(turn.active_task.piece_seconds[turn.progress.next : turn.end])


def deserialise_partial(stored: bytes | None) -> pa.Table | None:
    """A partial answer from its stored form."""
    return None if stored is None else pa.ipc.open_stream(stored).read_all()


def serialise_partial(partial_answer: pa.Table | None) -> bytes | None:
    """The stored form of a partial answer."""
    if partial_answer is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, partial_answer.schema) as writer:
        writer.write_table(partial_answer)
    serialised: bytes = sink.getvalue().to_pybytes()
    return serialised
