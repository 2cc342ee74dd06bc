"""The corpora of deployed rules, kept up with what live settles: from files, else the archive, then the newest rows."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

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
from archiver.place import Root, at
from recall.ledger import Task
from recall.request import Piece, SimilarQuestion
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index, Past, past
from recall.similarity.measure import TfIdf
from recall.similarity.store import Store, forget_unused

_LOG = structlog.get_logger()
_QUERIES = sql.load("contexts")
# A corpus is written down when so many events came in since, or this part of it.
_EVENTS, _PART = 500, 1 / 20
# Seconds after which a corpus that nobody asks for is no longer held in memory.
_IDLE = 600.0
# Where they are written down, and seconds between two looks for those that nobody uses any more.
_FOLDER, _TIDY = "indexes", 3600.0


class Name(NamedTuple):
    """What is compared with one another: events of a rule's version by some contexts, and what of these as numbers,
    with its bandwidth."""

    rule: str
    version: str
    contexts: tuple[str, ...]
    numeric: tuple[tuple[str, float | None], ...]


def name_of(rule: str, version: str, question: SimilarQuestion) -> Name:
    """The corpus that a question is about."""
    numeric = question.numeric if question.measure == TfIdf.name else {}
    return Name(rule, version, question.contexts, tuple(sorted(numeric.items())))


class Corpora:
    """One index for each rule's version and choice of contexts, read when it is first asked for.

    Written down beside the archive, so that a process that starts goes on from there; what is not asked for any more,
    such as the corpora of earlier versions, is freed, and some days later removed.
    """

    def __init__(self, connection: Connection[Any], root: Root) -> None:
        self._connection = connection
        self._root = root
        self._indexes: dict[Name, Index] = {}
        self._asked: dict[Name, float] = {}
        self._kept: dict[Name, int] = {}
        # Up to which number of all corpora it was looked for what is of each.
        self._followed: dict[Name, int] = {}
        self._tidied = -math.inf

    def index(self, rule: str, version: str, question: SimilarQuestion) -> Index:
        """The corpus with all that is settled by now, as a question compares it."""
        name = name_of(rule, version, question)
        known = self._current(name)
        self._keep(known, name)
        self._free(name)
        return known

    def written(self, name: Name) -> int | None:
        """The number of the last event that a corpus on disk has; None: there is none."""
        return self._store(name).number()

    def write(self, name: Name) -> int:
        """Have a corpus on disk with all that is settled by now; returns how many events that is."""
        index = self._current(name)
        if self._kept[name] < len(index):
            self._save(index, name)
        return len(index)

    def _current(self, name: Name) -> Index:
        known = self._indexes.get(name)
        if known is None:
            known = self._indexes[name] = self._begun(name)
        self._follow(known, name)
        return known

    def begin(self, task: Task) -> SimilarState:
        """A comparison, with the counts that were pinned for it, from its event's context and what was kept of it."""
        question = task.question
        assert task.corpus is not None and isinstance(question, SimilarQuestion)
        index = self.index(task.rule, task.version, question)
        found = self._connection.execute(_QUERIES["context"], {"eids": [task.asked.eid]}).fetchall()
        mine = [row[4] for row in found if row[0] == task.rule and row[1] == task.version]
        context = mine[0] if mine else {}
        state = SimilarState.of(index, question, task.asked, task.corpus, context, task.held)
        if task.held is None:
            state.pass_over(task.skipped)
        return state

    def promising(self, task: Task) -> list[Piece]:
        """The pieces of a task, those first in which most may be alike; of equal ones as they were."""
        assert task.pieces is not None and isinstance(task.question, SimilarQuestion)
        index = self.index(task.rule, task.version, task.question)
        promises = index.promises(self.begin(task).comparison, [piece[1:] for piece in task.pieces])
        order = sorted(range(len(promises)), key=lambda place: -promises[place])
        return [task.pieces[place] for place in order]

    def _begun(self, name: Name) -> Index:
        index = self._store(name).load(dict(name.numeric))
        if index is None:
            index = self._archived(name)
            self._kept[name] = 0
            _LOG.info("corpus read", action="corpus_read", rule=name.rule, events=len(index))
        else:
            self._kept[name] = len(index)
            self._followed[name] = self._store(name).complete() or index.number
        return index

    def _store(self, name: Name) -> Store:
        return Store.of(at(self._root).local / _FOLDER, name.rule, name.version, name[2:])

    def _archived(self, name: Name) -> Index:
        index = Index(dict(name.numeric))
        if not NumberedTable.exists(self._root, CONTEXTS):
            return index
        table = NumberedTable(self._root, CONTEXTS)
        self._followed[name] = table.last()
        self._add(index, self._read(table, index, name))
        return index

    def _read(self, table: NumberedTable, index: Index, name: Name) -> list[tuple[int, Past]]:
        """What the archive has beyond what the index knows, with its chunks."""
        rows = table.read(name.rule, name.version)
        after, ts = index.number, column(rows, "ts").tolist()
        texts = (rows[text].to_pylist() for text in ("chunk", "eid", "number", "contexts"))
        return [
            (chunk, past(moment, eid, int(number), orjson.loads(found), name.contexts, index.numeric))
            for moment, chunk, eid, number, found in zip(ts, *texts, strict=True)
            if int(number) > after
        ]

    def _add(self, index: Index, events: Sequence[tuple[int, Past]]) -> None:
        chunks: dict[int, list[Past]] = {}
        for chunk, event in events:
            chunks.setdefault(chunk, []).append(event)
        for chunk, held in chunks.items():
            index.add(chunk, held)

    def _follow(self, index: Index, name: Name) -> None:
        """What has come in since. Numbers come in order: those up to the last one that was there before are known."""
        rule, version, contexts, _ = name
        last = self._number("last_number")
        values = {"after": index.number, "rule": rule, "version": version}
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["tail"], values).fetchall()
        # Asked after the rows: what left them before they were read is told by then.
        forgotten = self._number("forgotten")
        events: list[tuple[int, Past]] = []
        looked = forgotten > self._followed.get(name, index.number)
        if looked:
            events = self._read(NumberedTable(self._root, CONTEXTS), index, name)
        known = {event.number for _, event in events}
        rows = [row for row in rows if row["number"] not in known]
        if rows:
            parts = locate(Catalog(self._connection).chunks(), np.array([row["ts"] for row in rows], dtype=np.int64))
            rest = contexts, index.numeric
            new = [past(r["ts"], str(r["eid"]), r["number"], r["contexts"], *rest) for r in rows]
            events += zip(parts.tolist(), new, strict=True)
        self._add(index, events)
        self._followed[name] = max(last, forgotten)
        if looked and not events and self._kept[name] == len(index):
            self._try_to_save(index, name)  # so that nobody looks for it again

    def _number(self, query: str) -> int:
        row = self._connection.execute(_QUERIES[query]).fetchone()
        assert row is not None
        return int(row[0])

    def _keep(self, index: Index, name: Name) -> None:
        new = len(index) - self._kept[name]
        if new >= max(_EVENTS, len(index) * _PART):
            self._try_to_save(index, name)

    def _try_to_save(self, index: Index, name: Name) -> None:
        try:
            self._save(index, name)
        except OSError as error:  # such as a full disk: the archive has all of it
            _LOG.warning("corpus not written", action="corpus_not_written", rule=name.rule, error=str(error))
            self._kept[name] = len(index)

    def _save(self, index: Index, name: Name) -> None:
        self._store(name).save(index, self._followed[name], time.time())
        self._kept[name] = len(index)

    def _free(self, name: Name) -> None:
        now = time.monotonic()
        self._asked[name] = now
        for idle in [other for other, asked in self._asked.items() if now - asked > _IDLE]:
            del self._indexes[idle], self._asked[idle], self._kept[idle]
            self._followed.pop(idle, None)
        if now - self._tidied > _TIDY:
            self._tidied = now
            for used in self._indexes:
                self._store(used).use(time.time())
            forget_unused(at(self._root).local / _FOLDER, time.time())
