"""Turns of similarity recalls: events compared with pieces of a corpus in memory, no engine."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from recall.corpora import Corpora
from recall.ledger import Revision, Task, TurnResult
from recall.requests import SimilarQuestion, compute_coverage, relate_to_request
from recall.scheduling import TurnStatistics, rank_pieces, share_query
from recall.similarity import (
    DividedPieces,
    EventKey,
    Index,
    SimilarState,
    compare,
)
from recall.worker.active_tasks import ActiveTasks, TurnTask
from recall.worker.part_comparisons import PartComparisons


@dataclass(frozen=True)
class ComparisonTurn:
    """A turn of some tasks of one question whose comparisons are in memory.

    `states` and `previous_hits`: by task, the latter before the turn. `divided`: by the position of
    a task, what other processes have compared for it. `incomplete`, `abandoned`: chunks of the
    corpus, see `ComparisonRunner`. `began_at`: by the monotonic clock, in seconds.
    """

    turns: list[TurnTask]
    states: list[SimilarState]
    previous_hits: list[set[EventKey]]
    divided: dict[int, DividedPieces]
    index: Index
    incomplete: Collection[int]
    abandoned: Collection[int]
    began_at: float


class ComparisonRunner:
    """Compares events with the corpora of their rules, in the thread of the main loop."""

    def __init__(
        self,
        corpora: Corpora,
        active_tasks: ActiveTasks,
        *,
        pin_pieces: Callable[[Task], Task],
        incomplete_chunks: Callable[[Task], Collection[int]],
        abandoned_chunks: Callable[[Task], Collection[int]],
        parts: PartComparisons | None = None,
    ) -> None:
        """All callables take a task; the latter two return chunks of the corpus of its rule.

        `pin_pieces`: stores what a task reads, before it reads any. `incomplete_chunks`: whose
        events have not all been found yet. `abandoned_chunks`: those of them that will never be
        complete. `parts`: asks other processes; None: all is compared here.
        """
        self._parts = parts
        self._corpora = corpora
        self._active_tasks = active_tasks
        self._pin_pieces = pin_pieces
        self._incomplete_chunks = incomplete_chunks
        self._abandoned_chunks = abandoned_chunks
        # Comparisons that have begun, by task ID: with the number of the claim.
        self._states: dict[UUID, tuple[int, SimilarState]] = {}

    def begin(self, turns: Sequence[TurnTask]) -> ComparisonTurn:
        """Load what a turn of some tasks of one question needs.

        Tasks that wait for what other processes compare have no part in it. The first turn of a
        task pins what it reads: the turn may be of other pieces than planned.
        """
        began_at = time.monotonic()
        task = turns[0].active_task.task
        assert isinstance(task.spec.question, SimilarQuestion)
        # Read before the index is updated: events found in between are compared all the same.
        incomplete = self._incomplete_chunks(task)
        abandoned = self._abandoned_chunks(task)
        index = self._corpora.load_index(task.spec.rule, task.spec.version, task.spec.question)
        pinned_turns = []
        states: list[SimilarState] = []
        divided: dict[int, DividedPieces] = {}
        for turn in turns:
            state = self._find_state(turn, index)
            if state is None:
                turn, state = self._begin_task(turn, index, incomplete)
                self._states[turn.spec.id] = turn.spec.fence, state
            if self._parts is not None:
                begun = self._parts.begin(turn, state)
                if begun is None:
                    continue
                turn, pieces = begun
                if pieces is not None:
                    divided[len(states)] = pieces
            pinned_turns.append(turn)
            states.append(state)
        return ComparisonTurn(
            turns=pinned_turns,
            states=states,
            previous_hits=[{hit.event for hit in state.top.hits} for state in states],
            divided=divided,
            index=index,
            incomplete=incomplete,
            abandoned=abandoned,
            began_at=began_at,
        )

    def _find_state(self, turn: TurnTask, index: Index) -> SimilarState | None:
        """The comparison of a task if it is in memory."""
        fence, state = self._states.get(turn.spec.id, (None, None))
        if state is None or fence != turn.spec.fence or state.index is not index:
            # A different index: the old one was evicted, and term numbers have changed.
            return None
        return state

    def _begin_task(
        self, turn: TurnTask, index: Index, incomplete: Collection[int]
    ) -> tuple[TurnTask, SimilarState]:
        """Start or resume the comparison of a task, with its turn."""
        task = turn.active_task.task
        if task.progress.next > 0:
            return turn, self._corpora.begin_comparison(task)
        # Its history is prepared now: all events settled by now count.
        model = self._corpora.find_model(task.spec)
        progress = replace(task.progress, corpus=index.last_sequence, model=model)
        task = replace(task, progress=progress)
        state = self._corpora.begin_comparison(task)
        return self._skip_irrelevant_pieces(turn, task, state, incomplete), state

    def _skip_irrelevant_pieces(
        self, turn: TurnTask, task: Task, state: SimilarState, incomplete: Collection[int]
    ) -> TurnTask:
        """Skip the pieces without a possible match: they are moved to the front, unread.

        Pieces of incomplete chunks are never skipped. The turn is shortened to pieces that were
        prepared for it.
        """
        pieces = turn.active_task.pieces
        prepared = set(pieces[: turn.end])
        irrelevant = state.pieces_without_matches([piece.range for piece in pieces])
        bounds: list[float | None] = []
        for piece, is_irrelevant in zip(pieces, irrelevant, strict=True):
            can_skip = is_irrelevant and piece.chunk not in incomplete
            bounds.append(0.0 if can_skip else None)
        # Bounds of 0 come first; the other pieces keep their order.
        ranked, skipped = rank_pieces(pieces, bounds, "newest")
        progress = replace(task.progress, pieces=ranked, skipped=skipped)
        task = self._pin_pieces(replace(task, progress=progress))
        state.skip_pieces(skipped)
        end = task.progress.next
        for piece in ranked[skipped : skipped + len(prepared)]:
            if piece not in prepared and piece.chunk in incomplete:
                break
            end += 1
        return TurnTask(replace(turn.active_task, task=task), end)

    def compare(self, comparison: ComparisonTurn) -> list[TurnResult]:
        """Compare in one pass over the corpus."""
        turns, states = comparison.turns, comparison.states
        runs = [[piece.range for piece in turn.pieces] for turn in turns]
        compared = compare(comparison.index, states, runs, comparison.divided)
        query_seconds = time.monotonic() - comparison.began_at
        new_hits = []
        for state, previous_hits in zip(states, comparison.previous_hits, strict=True):
            new_hits.append(sum(hit.event not in previous_hits for hit in state.top.hits))
        statistics = share_query(
            query_seconds,
            pieces=[turn.end - turn.progress.next for turn in turns],
            rows=[event_count for event_count, _ in compared],
            results=new_hits,
        )
        results = []
        for number, turn in enumerate(turns):
            has_improved = turn.active_task.has_improved or compared[number][1]
            result = _build_result(comparison, number, statistics[number], has_improved)
            results.append(result)
        comparison.index.release_unheld()
        return results

    @property
    def is_waiting(self) -> bool:
        """Whether a task waits for what another process compares."""
        return self._parts is not None and self._parts.is_waiting

    def exchange(self) -> None:
        """Compare what other processes ask, and collect what they have compared."""
        if self._parts is not None:
            self._parts.answer_requests()
            self._parts.collect()

    def forget(self, turns: Sequence[TurnTask]) -> None:
        """Resume comparisons from what is stored: some may have gone on further than others."""
        for turn in turns:
            self._states.pop(turn.spec.id, None)
            if self._parts is not None:
                self._parts.forget(turn.spec.id)

    def forget_inactive(self) -> None:
        """Release the memory of tasks that are not active any more."""
        for task_id in self._states.keys() - self._active_tasks.tasks.keys():
            del self._states[task_id]


def _build_result(
    comparison: ComparisonTurn, number: int, statistics: TurnStatistics, has_improved: bool
) -> TurnResult:
    """The result of the task at a position. `has_improved`: since its last revision."""
    turn, state, index = comparison.turns[number], comparison.states[number], comparison.index
    progress, pieces = turn.progress, turn.active_task.pieces
    failed = progress.failed
    for piece in turn.pieces:
        failed += piece.chunk in comparison.abandoned
    coverage = compute_coverage(pieces, turn.end, failed, progress.skipped)
    # While the first piece is being prepared, a turn may only have skipped pieces.
    has_read = coverage.read + failed > 0
    is_due = has_improved and turn.is_answer_due(time.monotonic())
    revision = None
    if coverage.final or (has_read and (progress.revision == 0 or is_due)):
        unread = pieces[turn.end :]
        spans_left = [piece.range for piece in unread if piece.chunk not in comparison.incomplete]
        # Pieces of incomplete chunks may hold anything: each of them may change the answer.
        unknown = len(unread) - len(spans_left)
        hopeful = state.count_hopeful_pieces(index, spans_left) + unknown
        forecast = state.forecast()
        revision = Revision(
            relate_to_request(
                replace(coverage, hopeful=hopeful),
                turn.spec.question,
                turn.spec.event,
                pieces,
            ),
            state.build_answer(index),
            forecast=None if forecast is None else forecast.shown,
            label_shares=None if forecast is None else forecast.shares,
        )
    return TurnResult(
        next=turn.end,
        failed=failed,
        partial_answer=None if coverage.final else state.dump(),
        statistics=statistics,
        state="done" if coverage.final else "running",
        revision=revision,
        has_improved=has_improved and revision is None,
    )
