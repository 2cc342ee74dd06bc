"""Similarity recalls, compared with a piece of the corpus in memory: no engine is asked."""

import time
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

    def compare(self, work: Work) -> Step:
        """Compare a task's event with its next piece of history; in the background, with all that is left."""
        began = time.monotonic()
        task = work.task
        question = task.question
        assert isinstance(question, SimilarQuestion) and task.pieces is not None
        index = self._corpora.index(task.rule, task.version, question.contexts)
        if work.state is None:
            work.state = self._begin(task, question, index)
        work.upto = len(task.pieces) if work.background else min(task.next + 1, len(task.pieces))
        compared, before = 0, {hit.event for hit in work.state.top.hits}
        for _, low, high in task.pieces[task.next : work.upto]:
            more, better = compare(index, work.state, question, low, high)
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
