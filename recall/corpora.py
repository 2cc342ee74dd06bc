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
from archiver.chunks import locate
from archiver.delta import CONTEXTS, SequencedTable
from archiver.ingest import Catalog
from archiver.storage import StorageRoot, as_storage
from archiver.times import micros_column
from recall.ledger import Task
from recall.requests import Piece, SimilarQuestion
from recall.similarity import (
    CorpusEvent,
    Index,
    IndexStore,
    SimilarState,
    TfIdfMeasure,
    make_corpus_event,
    remove_unused,
)

_LOG = structlog.get_logger()
_QUERIES = sql.load("contexts")
# A corpus is written down when so many events came in since, or this part of it.
_SAVE_MIN_EVENTS, _SAVE_MIN_SHARE = 500, 1 / 20
# Seconds after which a corpus that nobody asks for is no longer held in memory.
_IDLE_TIMEOUT = 600.0
# Where they are written down, and seconds between two looks for those that nobody uses any more.
_INDEX_FOLDER, _CLEANUP_INTERVAL = "indexes", 3600.0


class CorpusKey(NamedTuple):
    """What is compared with one another: events of a rule's version by some contexts, and what of these as numbers,
    with its bandwidth."""

    rule: str
    version: str
    contexts: tuple[str, ...]
    numeric: tuple[tuple[str, float | None], ...]


def build_corpus_key(rule: str, version: str, question: SimilarQuestion) -> CorpusKey:
    """The corpus that a question is about."""
    numeric = question.numeric if question.measure == TfIdfMeasure.name else {}
    return CorpusKey(rule, version, question.contexts, tuple(sorted(numeric.items())))


class Corpora:
    """One index for each rule's version and choice of contexts, read when it is first asked for.

    Written down beside the archive, so that a process that starts goes on from there; what is not asked for any more,
    such as the corpora of earlier versions, is freed, and some days later removed.
    """

    def __init__(self, connection: Connection[Any], root: StorageRoot) -> None:
        self._connection = connection
        self._root = root
        self._indexes: dict[CorpusKey, Index] = {}
        self._last_used: dict[CorpusKey, float] = {}
        self._saved_sizes: dict[CorpusKey, int] = {}
        # Up to which number of all corpora it was looked for what is of each.
        self._updated_to: dict[CorpusKey, int] = {}
        self._last_cleanup = -math.inf

    def load_index(self, rule: str, version: str, question: SimilarQuestion) -> Index:
        """The corpus with all that is settled by now, as a question compares it."""
        name = build_corpus_key(rule, version, question)
        known = self._updated_index(name)
        self._save_if_grown(known, name)
        self._evict_idle(name)
        return known

    def saved_number(self, key: CorpusKey) -> int | None:
        """The number of the last event that a corpus on disk has; None: there is none."""
        return self._store(key).last_sequence()

    def save_current(self, key: CorpusKey) -> int:
        """Have a corpus on disk with all that is settled by now; returns how many events that is."""
        index = self._updated_index(key)
        if self._saved_sizes[key] < len(index):
            self._save(index, key)
        return len(index)

    def _updated_index(self, name: CorpusKey) -> Index:
        known = self._indexes.get(name)
        if known is None:
            known = self._indexes[name] = self._open_index(name)
        self._update(known, name)
        return known

    def begin_comparison(self, task: Task) -> SimilarState:
        """A comparison, with the counts that were pinned for it, from its event's context and what was kept of it."""
        question = task.question
        assert task.corpus is not None and isinstance(question, SimilarQuestion)
        index = self.load_index(task.rule, task.version, question)
        found = self._connection.execute(_QUERIES["context"], {"eids": [task.event.eid]}).fetchall()
        mine = [row[4] for row in found if row[0] == task.rule and row[1] == task.version]
        context = mine[0] if mine else {}
        state = SimilarState.resume(
            index, question, task.event, task.corpus, context, task.partial_answer
        )
        if task.partial_answer is None:
            state.skip_pieces(task.skipped)
        return state

    def rank_by_upper_bound(self, task: Task) -> list[Piece]:
        """The pieces of a task, those first in which most may be alike; of equal ones as they were."""
        assert task.pieces is not None and isinstance(task.question, SimilarQuestion)
        index = self.load_index(task.rule, task.version, task.question)
        promises = index.expected_scores(
            self.begin_comparison(task).comparison, [piece[1:] for piece in task.pieces]
        )
        order = sorted(range(len(promises)), key=lambda place: -promises[place])
        return [task.pieces[place] for place in order]

    def _open_index(self, name: CorpusKey) -> Index:
        index = self._store(name).load(dict(name.numeric))
        if index is None:
            index = self._build_from_archive(name)
            self._saved_sizes[name] = 0
            _LOG.info("corpus read", action="corpus_read", rule=name.rule, events=len(index))
        else:
            self._saved_sizes[name] = len(index)
            self._updated_to[name] = self._store(name).complete_sequence() or index.last_sequence
        return index

    def _store(self, name: CorpusKey) -> IndexStore:
        return IndexStore.for_corpus(
            as_storage(self._root).work_folder / _INDEX_FOLDER, name.rule, name.version, name[2:]
        )

    def _build_from_archive(self, name: CorpusKey) -> Index:
        index = Index(dict(name.numeric))
        if not SequencedTable.exists(self._root, CONTEXTS):
            return index
        table = SequencedTable(self._root, CONTEXTS)
        self._updated_to[name] = table.last_number()
        self._add_events(index, self._read_archived_events(table, index, name))
        return index

    def _read_archived_events(
        self, table: SequencedTable, index: Index, name: CorpusKey
    ) -> list[tuple[int, CorpusEvent]]:
        """What the archive has beyond what the index knows, with its chunks."""
        rows = table.read(name.rule, name.version)
        after, ts = index.last_sequence, micros_column(rows, "ts").tolist()
        texts = (rows[text].to_pylist() for text in ("chunk", "eid", "number", "contexts"))
        return [
            (
                chunk,
                make_corpus_event(
                    moment, eid, int(number), orjson.loads(found), name.contexts, index.numeric
                ),
            )
            for moment, chunk, eid, number, found in zip(ts, *texts, strict=True)
            if int(number) > after
        ]

    def _add_events(self, index: Index, events: Sequence[tuple[int, CorpusEvent]]) -> None:
        chunks: dict[int, list[CorpusEvent]] = {}
        for chunk, event in events:
            chunks.setdefault(chunk, []).append(event)
        for chunk, held in chunks.items():
            index.add(chunk, held)

    def _update(self, index: Index, name: CorpusKey) -> None:
        """What has come in since. Numbers come in order: those up to the last one that was there before are known."""
        rule, version, contexts, _ = name
        last = self._query_number("last_number")
        values = {"after": index.last_sequence, "rule": rule, "version": version}
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["tail"], values).fetchall()
        # Asked after the rows: what left them before they were read is told by then.
        forgotten = self._query_number("forgotten")
        events: list[tuple[int, CorpusEvent]] = []
        looked = forgotten > self._updated_to.get(name, index.last_sequence)
        if looked:
            events = self._read_archived_events(SequencedTable(self._root, CONTEXTS), index, name)
        known = {event.sequence for _, event in events}
        rows = [row for row in rows if row["number"] not in known]
        if rows:
            parts = locate(
                Catalog(self._connection).chunks(),
                np.array([row["ts"] for row in rows], dtype=np.int64),
            )
            rest = contexts, index.numeric
            new = [
                make_corpus_event(r["ts"], str(r["eid"]), r["number"], r["contexts"], *rest)
                for r in rows
            ]
            events += zip(parts.tolist(), new, strict=True)
        self._add_events(index, events)
        self._updated_to[name] = max(last, forgotten)
        if looked and not events and self._saved_sizes[name] == len(index):
            self._try_to_save(index, name)  # so that nobody looks for it again

    def _query_number(self, query: str) -> int:
        row = self._connection.execute(_QUERIES[query]).fetchone()
        assert row is not None
        return int(row[0])

    def _save_if_grown(self, index: Index, name: CorpusKey) -> None:
        new = len(index) - self._saved_sizes[name]
        if new >= max(_SAVE_MIN_EVENTS, len(index) * _SAVE_MIN_SHARE):
            self._try_to_save(index, name)

    def _try_to_save(self, index: Index, name: CorpusKey) -> None:
        try:
            self._save(index, name)
        except OSError as error:  # such as a full disk: the archive has all of it
            _LOG.warning(
                "corpus not written", action="corpus_not_written", rule=name.rule, error=str(error)
            )
            self._saved_sizes[name] = len(index)

    def _save(self, index: Index, name: CorpusKey) -> None:
        self._store(name).save(index, self._updated_to[name], time.time())
        self._saved_sizes[name] = len(index)

    def _evict_idle(self, name: CorpusKey) -> None:
        now = time.monotonic()
        self._last_used[name] = now
        for idle in [
            other for other, asked in self._last_used.items() if now - asked > _IDLE_TIMEOUT
        ]:
            del self._indexes[idle], self._last_used[idle], self._saved_sizes[idle]
            self._updated_to.pop(idle, None)
        if now - self._last_cleanup > _CLEANUP_INTERVAL:
            self._last_cleanup = now
            for used in self._indexes:
                self._store(used).touch(time.time())
            remove_unused(as_storage(self._root).work_folder / _INDEX_FOLDER, time.time())
