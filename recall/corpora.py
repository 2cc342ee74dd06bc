"""The corpora of deployed rules, kept up with what live settles: from files, else the archive, then the newest rows."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import structlog
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.admission import column
from archiver.catalog import Catalog
from archiver.chunk import locate
from archiver.numbered import CONTEXTS, NumberedTable
from recall.ledger import Task
from recall.request import Piece, SimilarQuestion
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index, Past, past
from recall.similarity.measure import TfIdf
from recall.similarity.store import Store

_LOG = structlog.get_logger()
_QUERIES = sql.load("contexts")
# A corpus is written down when so many events came in since, or this part of it.
_EVENTS, _PART = 500, 1 / 20
# Seconds after which a corpus that nobody asks for is no longer held in memory.
_IDLE = 600.0

# Rule, version, contexts, and what of these is compared as numbers, with its bandwidth.
_Name = tuple[str, str, tuple[str, ...], tuple[tuple[str, float | None], ...]]


class Corpora:
    """One index for each rule's version and choice of contexts, read when it is first asked for.

    Written down beside the archive, so that a process that starts goes on from there; what is not asked for any more,
    such as the corpora of earlier versions, is freed.
    """

    def __init__(self, connection: Connection[Any], root: Path) -> None:
        self._connection = connection
        self._root = root
        self._indexes: dict[_Name, Index] = {}
        self._asked: dict[_Name, float] = {}
        self._kept: dict[_Name, int] = {}

    def index(self, rule: str, version: str, question: SimilarQuestion) -> Index:
        """The corpus with all that is settled by now, as a question compares it."""
        numeric = question.numeric if question.measure == TfIdf.name else {}
        name = rule, version, question.contexts, tuple(sorted(numeric.items()))
        known = self._indexes.get(name)
        if known is None:
            known = self._indexes[name] = self._begun(name)
        self._follow(known, name)
        self._keep(known, name)
        self._free(name)
        return known

    def begin(self, task: Task) -> SimilarState:
        """A comparison, with the counts that were pinned for it, from its event's context and what was kept of it."""
        question = task.question
        assert task.corpus is not None and isinstance(question, SimilarQuestion)
        index = self.index(task.rule, task.version, question)
        found = self._connection.execute(_QUERIES["context"], {"eids": [task.asked.eid]}).fetchall()
        mine = [row[4] for row in found if row[0] == task.rule and row[1] == task.version]
        return SimilarState.of(index, question, task.asked, task.corpus, mine[0] if mine else {}, task.held)

    def promising(self, task: Task) -> list[Piece]:
        """The pieces of a task, those first in which most may be alike; of equal ones as they were."""
        assert task.pieces is not None and isinstance(task.question, SimilarQuestion)
        index = self.index(task.rule, task.version, task.question)
        promises = index.promises(self.begin(task).comparison, [piece[1:] for piece in task.pieces])
        order = sorted(range(len(promises)), key=lambda place: -promises[place])
        return [task.pieces[place] for place in order]

    def _begun(self, name: _Name) -> Index:
        index = self._store(name).load(dict(name[3]))
        if index is None:
            index = self._archived(name)
            self._kept[name] = 0
            _LOG.info("corpus read", action="corpus_read", rule=name[0], events=len(index))
        else:
            self._kept[name] = len(index)
        return index

    def _store(self, name: _Name) -> Store:
        return Store.of(self._root / "indexes", *name[:2], name[2:])

    def _archived(self, name: _Name) -> Index:
        rule, version, contexts, numeric = name
        index = Index(dict(numeric))
        if not NumberedTable.exists(self._root, CONTEXTS):
            return index
        rows = NumberedTable(self._root, CONTEXTS).read(rule, version)
        ts = column(rows, "ts").tolist()
        chunks: dict[int, list[Past]] = {}
        texts = (rows[name].to_pylist() for name in ("eid", "number", "contexts", "chunk"))
        for moment, eid, number, found, chunk in zip(ts, *texts, strict=True):
            one = past(moment, eid, int(number), orjson.loads(found), contexts, index.numeric)
            chunks.setdefault(chunk, []).append(one)
        for chunk, events in chunks.items():
            index.add(chunk, events)
        return index

    def _follow(self, index: Index, name: _Name) -> None:
        rule, version, contexts, _ = name
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(
                _QUERIES["tail"], {"after": index.number, "rule": rule, "version": version}
            ).fetchall()
        if not rows:
            return
        catalog = Catalog(self._connection).chunks()
        parts = locate(catalog, np.array([row["ts"] for row in rows], dtype=np.int64)).tolist()
        for part in set(parts):
            here = [row for row, chunk in zip(rows, parts, strict=True) if chunk == part]
            rest = contexts, index.numeric
            index.add(part, [past(r["ts"], str(r["eid"]), r["number"], r["contexts"], *rest) for r in here])

    def _keep(self, index: Index, name: _Name) -> None:
        new = len(index) - self._kept[name]
        if new >= max(_EVENTS, len(index) * _PART):
            try:
                self._store(name).save(index, time.time())
            except OSError as error:  # such as a full disk: the archive has all of it
                _LOG.warning("corpus not written", action="corpus_not_written", rule=name[0], error=str(error))
            self._kept[name] = len(index)

    def _free(self, name: _Name) -> None:
        now = time.monotonic()
        self._asked[name] = now
        for idle in [other for other, asked in self._asked.items() if now - asked > _IDLE]:
            del self._indexes[idle], self._asked[idle], self._kept[idle]
