"""Similarity recalls, compared with a piece of the corpus in memory: no engine is asked."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from recall.corpora import Corpora
from recall.ledger import Ledger, Revision, Step, Task
from recall.manager.desk import Work
from recall.request import SimilarQuestion, coverage
from recall.schedule.order import ranked
from recall.similarity.answer import SimilarState, barren, compare, hopeful
from recall.similarity.index import Index, Key


class Comparisons:
    """Events compared with the corpora of their rules."""

    def __init__(
        self,
        corpora: Corpora,
        ledger: Ledger,
        missing: Callable[[Task], Collection[int]],
        lost: Callable[[Task], Collection[int]],
    ) -> None:
        """`missing`: the chunks of which the corpus of a task's rule is not whole yet; `lost`: nor will it ever be."""
        self._corpora = corpora
        self._ledger = ledger
        self._missing, self._lost = missing, lost

    def compare(self, works: Sequence[Work]) -> list[Step]:
        """Compare the events of some tasks of one rule, each with its next pieces of history, in one pass."""
        began = time.monotonic()
        task = works[0].task
        assert isinstance(task.question, SimilarQuestion)
        # Asked before the corpus is brought up to now: what is found in between is looked at none the less.
        missing, lost = self._missing(task), self._lost(task)
        index = self._corpora.index(task.rule, task.version, task.question)
        before = [self._best(work, index, missing) for work in works]
        compared = self._pass(works, index)
        took = time.monotonic() - began
        found = zip(works, before, compared, strict=True)
        return [
            replace(self._step(work, index, (missing, lost), known, count, took / len(works)), took=took)
            for work, known, count in found
        ]

    def _best(self, work: Work, index: Index, missing: Collection[int]) -> set[Key]:
        """The best so far; a task that is new here begins, or goes on from what was kept."""
        if work.state is not None and work.state.index is not index:
            work.state = None  # the corpus was freed meanwhile, and its terms have other numbers now
        if work.state is None:
            begins = work.task.next == 0
            if begins:
                # Now its first piece is ready: what there is counts.
                work.task.corpus = index.number
            work.state = self._corpora.begin(work.task)
            if begins:
                self._pass_over(work, work.state, missing)
        return {hit.event for hit in work.state.top.hits}

    def _pass_over(self, work: Work, state: SimilarState, unknown: Collection[int]) -> None:
        """Pieces without anything in common with the event come first, and need not be read. Of those whose past is not
        found yet nothing is known."""
        task = work.task
        assert task.pieces is not None
        ready = set(task.pieces[: work.upto])
        told = barren(state.index, state, [(low, high) for _, low, high in task.pieces])
        promises = [
            0.0 if none and piece[0] not in unknown else None for piece, none in zip(task.pieces, told, strict=True)
        ]
        task.pieces, task.skipped = ranked(task.pieces, promises, "newest")  # the rest stay in the order they have
        self._ledger.pin(task)
        state.pass_over(task.skipped)
        # This turn reads as many as it would have, but none that was not made ready for it.
        able = takewhile(
            lambda piece: piece in ready or piece[0] not in unknown, task.pieces[task.skipped :][: len(ready)]
        )
        work.upto = task.next + sum(1 for _ in able)

    def _pass(self, works: Sequence[Work], index: Index) -> list[int]:
        """Compare, piece by piece; with how many events each."""
        compared = [0] * len(works)
        for turn in range(max(work.upto - work.task.next for work in works)):
            there = [(at, work) for at, work in enumerate(works) if work.task.next + turn < work.upto]
            spans = [work.task.pieces[work.task.next + turn][1:] for _, work in there if work.task.pieces]
            states = [work.state for _, work in there if work.state is not None]
            for (at, work), (more, better) in zip(there, compare(index, states, spans), strict=True):
                compared[at] += more
                work.better = work.better or better
        return compared

    def _step(
        self,
        work: Work,
        index: Index,
        unprepared: tuple[Collection[int], Collection[int]],
        before: set[Key],
        compared: int,
        seconds: float,
    ) -> Step:
        task, state = work.task, work.state
        assert task.pieces is not None and state is not None
        changes = sum(hit.event not in before for hit in state.top.hits)
        missing, lost = unprepared
        failed = task.failed + sum(chunk in lost for chunk, _, _ in task.pieces[task.next : work.upto])
        covered = coverage(task.pieces, work.upto, failed, task.skipped)
        # Where the next piece must be prepared first, all that is ready may have been passed over.
        looked = covered.read + failed > 0
        due = covered.final or (looked and (task.revision == 0 or (work.better and work.due(time.monotonic()))))
        revision = None
        if due:
            left = [(low, high) for chunk, low, high in task.pieces[work.upto :] if chunk not in missing]
            # Of chunks whose past is not found yet nothing is known: each may hold anything.
            unknown = len(task.pieces) - work.upto - len(left)
            revision = Revision(replace(covered, hopeful=hopeful(index, state, left) + unknown), state.answer(index))
        held = None if covered.final else state.dump()
        ended = "done" if covered.final else "running"
        return Step(task, work.upto, failed, held, compared, changes, seconds, ended, revision)
