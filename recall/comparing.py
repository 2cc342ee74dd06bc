"""Similarity recalls, compared with a piece of the corpus in memory: no engine is asked."""

import time
from collections.abc import Sequence
from typing import Any

from psycopg import Connection

import sql
from recall.corpora import Corpora
from recall.desk import Work
from recall.ledger import Revision, Step, Task
from recall.request import SimilarQuestion, coverage
from recall.similarity.answer import SimilarState, compare
from recall.similarity.index import Index

_CONTEXTS = sql.load("contexts")


class Comparisons:
    """Events compared with the corpora of their rules."""

    def __init__(self, connection: Connection[Any], corpora: Corpora) -> None:
        self._connection = connection
        self._corpora = corpora

    def compare(self, works: Sequence[Work]) -> list[Step]:
        """Compare the events of some tasks of one rule, each with its next pieces of history."""
        task = works[0].task
        assert isinstance(task.question, SimilarQuestion)
        index = self._corpora.index(task.rule, task.version, task.question.contexts)
        return [self._compare(work, index) for work in works]

    def _compare(self, work: Work, index: Index) -> Step:
        began = time.monotonic()
        task, question = work.task, work.task.question
        assert isinstance(question, SimilarQuestion) and task.pieces is not None
        if work.state is None:
            work.state = self._begin(task, question, index)
        compared, before = 0, {hit.event for hit in work.state.top.hits}
        for _, low, high in task.pieces[task.next : work.upto]:
            ((more, better),) = compare(index, [work.state], low, high)
            compared, work.better = compared + more, work.better or better
        changes = sum(hit.event not in before for hit in work.state.top.hits)
        covered = coverage(task.pieces, work.upto, task.failed, task.skipped)
        due = covered.final or task.revision == 0 or (work.better and work.due(time.monotonic()))
        revision = Revision(covered, work.state.answer(index)) if due else None
        seconds = time.monotonic() - began
        held = None if covered.final else work.state.dump()
        ended = "done" if covered.final else "running"
        return Step(task, work.upto, task.failed, held, compared, changes, seconds, ended, revision)

    def _begin(self, task: Task, question: SimilarQuestion, index: Index) -> SimilarState:
        assert task.corpus is not None
        found = self._connection.execute(_CONTEXTS["context"], {"eids": [task.asked.eid]}).fetchall()
        mine = [row[4] for row in found if row[0] == task.rule and row[1] == task.version]
        return SimilarState.of(index, question, task.asked, task.corpus, mine[0] if mine else {}, task.held)
