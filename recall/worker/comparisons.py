"""Similarity recalls, compared with a piece of the corpus in memory: no engine is asked."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from recall.corpora import Corpora
from recall.ledger import Ledger, Revision, Task, TurnResult
from recall.requests import SimilarQuestion, compute_coverage
from recall.scheduling import rank_pieces
from recall.similarity import (
    EventKey,
    Index,
    SimilarState,
    compare,
    count_hopeful_pieces,
    pieces_without_matches,
)
from recall.worker.active_tasks import ActiveTask


class ComparisonRunner:
    """Events compared with the corpora of their rules."""

    def __init__(
        self,
        corpora: Corpora,
        ledger: Ledger,
        incomplete_chunks: Callable[[Task], Collection[int]],
        abandoned_chunks: Callable[[Task], Collection[int]],
    ) -> None:
        """`missing`: the chunks of which the corpus of a task's rule is not whole yet; `lost`: nor will it ever be."""
        self._corpora = corpora
        self._ledger = ledger
        self._incomplete_chunks, self._abandoned_chunks = incomplete_chunks, abandoned_chunks

    def compare(self, active_tasks: Sequence[ActiveTask]) -> list[TurnResult]:
        """Compare the events of some tasks of one rule, each with its next pieces of history, in one pass."""
        began = time.monotonic()
        task = active_tasks[0].task
        assert isinstance(task.question, SimilarQuestion)
        # Asked before the corpus is brought up to now: what is found in between is looked at none the less.
        missing, lost = self._incomplete_chunks(task), self._abandoned_chunks(task)
        index = self._corpora.load_index(task.rule, task.version, task.question)
        before = [self._begin_and_list_hits(work, index, missing) for work in active_tasks]
        compared = self._compare_pieces(active_tasks, index)
        took = time.monotonic() - began
        found = zip(active_tasks, before, compared, strict=True)
        return [
            replace(
                self._build_result(
                    work, index, (missing, lost), known, count, took / len(active_tasks)
                ),
                query_seconds=took,
            )
            for work, known, count in found
        ]

    def _begin_and_list_hits(
        self, work: ActiveTask, index: Index, missing: Collection[int]
    ) -> set[EventKey]:
        """The best so far; a task that is new here begins, or goes on from what was kept."""
        if work.comparison is not None and work.comparison.index is not index:
            work.comparison = (
                None  # the corpus was freed meanwhile, and its terms have other numbers now
            )
        if work.comparison is None:
            begins = work.task.next == 0
            if begins:
                # Now its first piece is ready: what there is counts.
                work.task.corpus = index.last_sequence
            work.comparison = self._corpora.begin_comparison(work.task)
            if begins:
                self._skip_irrelevant_pieces(work, work.comparison, missing)
        return {hit.event for hit in work.comparison.top.hits}

    def _skip_irrelevant_pieces(
        self, work: ActiveTask, state: SimilarState, unknown: Collection[int]
    ) -> None:
        """Pieces without anything in common with the event come first, and need not be read. Of those whose past is not
        found yet nothing is known."""
        task = work.task
        assert task.pieces is not None
        ready = set(task.pieces[: work.turn_end])
        told = pieces_without_matches(
            state.index, state, [(low, high) for _, low, high in task.pieces]
        )
        promises = [
            0.0 if none and piece[0] not in unknown else None
            for piece, none in zip(task.pieces, told, strict=True)
        ]
        task.pieces, task.skipped = rank_pieces(
            task.pieces, promises, "newest"
        )  # the rest stay in the order they have
        self._ledger.pin_pieces(task)
        state.skip_pieces(task.skipped)
        # This turn reads as many as it would have, but none that was not made ready for it.
        able = takewhile(
            lambda piece: piece in ready or piece[0] not in unknown,
            task.pieces[task.skipped :][: len(ready)],
        )
        work.turn_end = task.next + sum(1 for _ in able)

    def _compare_pieces(self, works: Sequence[ActiveTask], index: Index) -> list[int]:
        """Compare, piece by piece; with how many events each."""
        compared = [0] * len(works)
        for turn in range(max(work.turn_end - work.task.next for work in works)):
            there = [
                (at, work) for at, work in enumerate(works) if work.task.next + turn < work.turn_end
            ]
            spans = [
                work.task.pieces[work.task.next + turn][1:] for _, work in there if work.task.pieces
            ]
            states = [work.comparison for _, work in there if work.comparison is not None]
            for (at, work), (more, better) in zip(
                there, compare(index, states, spans), strict=True
            ):
                compared[at] += more
                work.has_improved = work.has_improved or better
        return compared

    def _build_result(
        self,
        work: ActiveTask,
        index: Index,
        unprepared: tuple[Collection[int], Collection[int]],
        before: set[EventKey],
        compared: int,
        seconds: float,
    ) -> TurnResult:
        task, state = work.task, work.comparison
        assert task.pieces is not None and state is not None
        changes = sum(hit.event not in before for hit in state.top.hits)
        missing, lost = unprepared
        failed = task.failed + sum(
            chunk in lost for chunk, _, _ in task.pieces[task.next : work.turn_end]
        )
        covered = compute_coverage(task.pieces, work.turn_end, failed, task.skipped)
        # Where the next piece must be prepared first, all that is ready may have been passed over.
        looked = covered.read + failed > 0
        due = covered.final or (
            looked
            and (task.revision == 0 or (work.has_improved and work.is_answer_due(time.monotonic())))
        )
        revision = None
        if due:
            left = [
                (low, high)
                for chunk, low, high in task.pieces[work.turn_end :]
                if chunk not in missing
            ]
            # Of chunks whose past is not found yet nothing is known: each may hold anything.
            unknown = len(task.pieces) - work.turn_end - len(left)
            revision = Revision(
                replace(covered, hopeful=count_hopeful_pieces(index, state, left) + unknown),
                state.build_answer(index),
            )
        held = None if covered.final else state.dump()
        ended = "done" if covered.final else "running"
        return TurnResult(
            task, work.turn_end, failed, held, compared, changes, seconds, ended, revision
        )
