"""Turns of similarity recalls: events compared with pieces of a corpus in memory, no engine."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from recall.corpora import Corpora
from recall.ledger import Ledger, Revision, Task, TurnResult
from recall.requests import SimilarQuestion, compute_coverage
from recall.scheduling import rank_pieces
from recall.similarity import (
    EventKey,
    Index,
    SimilarState,
    compare,
)
from recall.worker.active_tasks import ActiveTask


class ComparisonRunner:
    """Compares events with the corpora of their rules."""

    def __init__(
        self,
        corpora: Corpora,
        ledger: Ledger,
        incomplete_chunks: Callable[[Task], Collection[int]],
        abandoned_chunks: Callable[[Task], Collection[int]],
    ) -> None:
        """Both callables take a task and return chunks of the corpus of its rule.

        `incomplete_chunks`: whose events have not all been found yet. `abandoned_chunks`: those of
        them that will never be complete.
        """
        self._corpora = corpora
        self._ledger = ledger
        self._incomplete_chunks = incomplete_chunks
        self._abandoned_chunks = abandoned_chunks

    def compare(self, active_tasks: Sequence[ActiveTask]) -> list[TurnResult]:
        """Run one turn of some tasks of one question, in one pass over the corpus."""
        began = time.monotonic()
        task = active_tasks[0].task
        assert isinstance(task.question, SimilarQuestion)
        # Read before the index is updated: events found in between are compared all the same.
        incomplete = self._incomplete_chunks(task)
        abandoned = self._abandoned_chunks(task)
        index = self._corpora.load_index(task.rule, task.version, task.question)
        previous_hits = [
            self._begin_and_list_hits(active_task, index, incomplete)
            for active_task in active_tasks
        ]
        event_counts = self._compare_pieces(active_tasks, index)
        seconds = time.monotonic() - began
        results = []
        turns = zip(active_tasks, previous_hits, event_counts, strict=True)
        for active_task, hits, event_count in turns:
            result = self._build_result(
                active_task,
                index,
                incomplete=incomplete,
                abandoned=abandoned,
                previous_hits=hits,
                event_count=event_count,
                seconds=seconds / len(active_tasks),
            )
            results.append(replace(result, query_seconds=seconds))
        return results

    def _begin_and_list_hits(
        self, active_task: ActiveTask, index: Index, incomplete: Collection[int]
    ) -> set[EventKey]:
        """The best hits so far. Starts or resumes the comparison if it is not in memory."""
        comparison = active_task.comparison
        if comparison is None or comparison.index is not index:
            # A different index: the old one was evicted, and term numbers have changed.
            is_first_turn = active_task.task.next == 0
            if is_first_turn:
                # Its history is prepared now: all events settled by now count.
                active_task.task.corpus = index.last_sequence
            comparison = self._corpora.begin_comparison(active_task.task)
            active_task.comparison = comparison
            if is_first_turn:
                self._skip_irrelevant_pieces(active_task, comparison, incomplete)
        return {hit.event for hit in comparison.top.hits}

    def _skip_irrelevant_pieces(
        self, active_task: ActiveTask, state: SimilarState, incomplete: Collection[int]
    ) -> None:
        """Skip the pieces without a possible match: they are moved to the front, unread.

        Pieces of incomplete chunks are never skipped. The turn is shortened to pieces that were
        prepared for it.
        """
        task = active_task.task
        assert task.pieces is not None
        prepared = set(task.pieces[: active_task.turn_end])
        spans = [(low, high) for _, low, high in task.pieces]
        irrelevant = state.pieces_without_matches(spans)
        bounds: list[float | None] = []
        for (chunk, _, _), is_irrelevant in zip(task.pieces, irrelevant, strict=True):
            bounds.append(0.0 if is_irrelevant and chunk not in incomplete else None)
        # Bounds of 0 come first; the other pieces keep their order.
        task.pieces, task.skipped = rank_pieces(task.pieces, bounds, "newest")
        self._ledger.pin_pieces(task)
        state.skip_pieces(task.skipped)
        active_task.turn_end = task.next
        for piece in task.pieces[task.skipped : task.skipped + len(prepared)]:
            if piece not in prepared and piece[0] in incomplete:
                break
            active_task.turn_end += 1

    def _compare_pieces(self, active_tasks: Sequence[ActiveTask], index: Index) -> list[int]:
        """Compare piece by piece; returns the number of events compared for each task."""
        event_counts = [0] * len(active_tasks)
        turn_lengths = [
            active_task.turn_end - active_task.task.next for active_task in active_tasks
        ]
        for step in range(max(turn_lengths)):
            positions = []
            spans = []
            states = []
            for position, active_task in enumerate(active_tasks):
                pieces, comparison = active_task.task.pieces, active_task.comparison
                if step < turn_lengths[position] and pieces and comparison is not None:
                    positions.append(position)
                    spans.append(pieces[active_task.task.next + step][1:])
                    states.append(comparison)
            compared = compare(index, states, spans)
            for position, (event_count, improved) in zip(positions, compared, strict=True):
                event_counts[position] += event_count
                active_tasks[position].has_improved |= improved
        return event_counts

    def _build_result(
        self,
        active_task: ActiveTask,
        index: Index,
        *,
        incomplete: Collection[int],
        abandoned: Collection[int],
        previous_hits: set[EventKey],
        event_count: int,
        seconds: float,
    ) -> TurnResult:
        task, state, turn_end = active_task.task, active_task.comparison, active_task.turn_end
        assert task.pieces is not None and state is not None
        failed = task.failed
        for chunk, _, _ in task.pieces[task.next : turn_end]:
            failed += chunk in abandoned
        coverage = compute_coverage(task.pieces, turn_end, failed, task.skipped)
        # While the first piece is being prepared, a turn may only have skipped pieces.
        has_read = coverage.read + failed > 0
        improved = active_task.has_improved and active_task.is_answer_due(time.monotonic())
        revision = None
        if coverage.final or (has_read and (task.revision == 0 or improved)):
            spans_left = [
                (low, high)
                for chunk, low, high in task.pieces[turn_end:]
                if chunk not in incomplete
            ]
            # Pieces of incomplete chunks may hold anything: each of them may change the answer.
            unknown = len(task.pieces) - turn_end - len(spans_left)
            hopeful = state.count_hopeful_pieces(index, spans_left) + unknown
            revision = Revision(replace(coverage, hopeful=hopeful), state.build_answer(index))
        return TurnResult(
            task=task,
            next=turn_end,
            failed=failed,
            partial_answer=None if coverage.final else state.dump(),
            rows=event_count,
            results=sum(hit.event not in previous_hits for hit in state.top.hits),
            seconds=seconds,
            state="done" if coverage.final else "running",
            revision=revision,
        )
