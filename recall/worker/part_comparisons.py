"""Comparisons with parts of corpora that other processes hold: requests and answers are rows.

The holder of a task asks the holders of parts and merges what they answer; no process calls
another. What is not answered in time is compared here, with the same result.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

import structlog
from cachetools import TTLCache

import sql
from archiver.time_range import TimeRange
from recall.corpora import Corpora
from recall.ledger import Ledger
from recall.part_plans import divide_pieces
from recall.similarity import DividedPieces, PartialAnswer, SimilarState
from recall.worker.active_tasks import ActiveTasks, TurnTask
from recall.worker.query_slots import summarise_error
from sql.processes import SignalGateway
from sql.similarity import PartGateway, PartRequestRow

_LOG = structlog.get_logger()

# How long a task waits for partial answers, and how long a process that gave none is not asked.
_ANSWER_TIMEOUT = 10.0  # seconds
_AVOID_DURATION = 60.0  # seconds
_MAX_AVOIDED = 1_000  # leases
# Requests that are answered between two rounds of the loop.
_REQUESTS_PER_ROUND = 8


@dataclass
class _Wait:
    """A turn that waits for partial answers.

    `holders`: see `divide_pieces`. `asked`: the leases that have not answered. `deadline`: by the
    monotonic clock, in seconds.
    """

    turn: TurnTask
    holders: Mapping[int, int]
    max_sequence: int
    asked: set[int]
    deadline: float
    answers: dict[int, PartialAnswer] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return not self.asked

    def divide_pieces(self) -> DividedPieces:
        """What was answered. The pieces of those that did not answer are compared here."""
        answered = {}
        for chunk, holder in self.holders.items():
            if holder in self.answers:
                answered[chunk] = holder
        spans = divide_pieces(self.turn.pieces, answered).here
        return DividedPieces(spans, self.max_sequence, list(self.answers.values()))


class PartComparisons:
    """Asks other processes for comparisons, and answers what they ask."""

    def __init__(
        self,
        connection: sql.Connection,
        ledger: Ledger,
        *,
        lease: int,
        corpora: Corpora,
        active_tasks: ActiveTasks,
    ) -> None:
        self._gateway = PartGateway(connection)
        self._signals = SignalGateway(connection)
        self._ledger = ledger
        self._lease = lease
        self._corpora = corpora
        self._active_tasks = active_tasks
        self._waits: dict[UUID, _Wait] = {}
        self._avoided: TTLCache[int, bool] = TTLCache(_MAX_AVOIDED, _AVOID_DURATION)

    # Asking

    @property
    def is_waiting(self) -> bool:
        """Whether a task waits for a partial answer."""
        return any(not wait.has_ended for wait in self._waits.values())

    def begin(
        self, turn: TurnTask, state: SimilarState
    ) -> tuple[TurnTask, DividedPieces | None] | None:
        """The turn with what other processes have found for it; None: it waits for them.

        The turn is the one that they were asked for.
        """
        wait = self._waits.pop(turn.spec.id, None)
        if wait is None or not _is_same(wait.turn, turn):
            return None if self._ask(turn, state) else (turn, None)
        if not wait.has_ended:
            self._waits[turn.spec.id] = wait
            return None
        self._gateway.delete_requests([turn.spec.id])
        return TurnTask(turn.active_task, wait.turn.end), wait.divide_pieces()

    def _ask(self, turn: TurnTask, state: SimilarState) -> bool:
        """Ask the holders of a turn's pieces; returns whether there are any."""
        holders = self._corpora.holders(turn.spec)
        spans_by_holder = divide_pieces(turn.pieces, holders, self._avoided).elsewhere
        if not spans_by_holder:
            return False
        max_sequence = max(state.index.last_sequence, state.comparison.event.sequence)
        for holder, spans in spans_by_holder.items():
            request = PartRequestRow(
                task=turn.spec.id,
                fence=turn.spec.fence,
                spans=spans,
                max_sequence=max_sequence,
                event_count=state.comparison.pinned_counts.event_count,
            )
            self._gateway.ask(request, holder)
        self._signals.notify_recall_processes()
        deadline = time.monotonic() + _ANSWER_TIMEOUT
        self._waits[turn.spec.id] = _Wait(
            turn, holders, max_sequence, set(spans_by_holder), deadline
        )
        self._active_tasks.set_busy(turn.spec, True)
        return True

    def collect(self) -> None:
        """Collect answers; tasks that wait for no more of them are ready for their turns."""
        for task in [task for task, wait in self._waits.items() if not self._is_active(wait)]:
            del self._waits[task]
            self._gateway.delete_requests([task])
        open_waits = {task: wait for task, wait in self._waits.items() if not wait.has_ended}
        if not open_waits:
            return
        for row in self._gateway.list_answers(list(open_waits)):
            wait = open_waits[row.task]
            if row.fence != wait.turn.spec.fence or row.holder not in wait.asked:
                continue
            wait.asked.remove(row.holder)
            if row.answer is not None and row.compared is not None:
                wait.answers[row.holder] = PartialAnswer(bytes(row.answer), row.compared)
            else:  # compared here instead
                self._avoid(row.holder, row.error or "the process has ended")
        now = time.monotonic()
        for wait in open_waits.values():
            if now >= wait.deadline:
                for holder in wait.asked:
                    self._avoid(holder, f"no answer within {_ANSWER_TIMEOUT:g} s")
                wait.asked.clear()
            if wait.has_ended:
                self._active_tasks.set_busy(wait.turn.spec, False)

    def _is_active(self, wait: _Wait) -> bool:
        return self._active_tasks.find(wait.turn.spec) is not None

    def _avoid(self, holder: int, error: str) -> None:
        self._avoided[holder] = True
        _LOG.warning(
            "part of a corpus not compared by its holder",
            action="part_not_compared",
            lease=holder,
            error=error,
        )

    def forget(self, task: UUID) -> None:
        """Ask again at the next turn of a task."""
        wait = self._waits.pop(task, None)
        if wait is not None:
            self._active_tasks.set_busy(wait.turn.spec, False)

    # Answering

    def answer_requests(self) -> None:
        """Compare what other processes ask."""
        requests = self._gateway.list_asked(self._lease, _REQUESTS_PER_ROUND)
        for request in requests:
            try:
                answer = self._compare(request)
            except sql.DatabaseError:
                raise
            except Exception as error:  # the asking process compares itself
                self._gateway.answer(request, self._lease, error=summarise_error(error))
            else:
                self._gateway.answer(
                    request, self._lease, answer=answer.state, compared=answer.compared
                )
        if requests:
            self._signals.notify_recall_processes()

    def _compare(self, request: PartRequestRow) -> PartialAnswer:
        """Raises `ValueError` if the corpus here is not the one that is asked for."""
        task = self._ledger.find_claimed(request.task, request.fence)
        if task is None:
            raise ValueError("the task is not claimed any more")
        at_start = replace(task.progress, partial_answer=None, skipped=0)
        state = self._corpora.begin_comparison(replace(task, progress=at_start))
        index, comparison = state.index, state.comparison
        event_count = comparison.pinned_counts.event_count
        if event_count != request.event_count or (
            max(index.last_sequence, comparison.event.sequence) < request.max_sequence
        ):
            raise ValueError("the corpora differ")
        comparison.max_sequence = request.max_sequence
        compared = 0
        for span in request.spans:
            compared += index.score([comparison], [TimeRange(*span)])[0][0]
        index.release_unheld()
        return PartialAnswer(state.dump(), compared)


def _is_same(asked_turn: TurnTask, turn: TurnTask) -> bool:
    """Whether a turn begins where the other does, under the same claim."""
    return (asked_turn.spec.fence, asked_turn.progress.next) == (
        turn.spec.fence,
        turn.progress.next,
    )
