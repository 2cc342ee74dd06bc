"""The corpora of deployed rules: past events with their contexts, indexed for similarity search.

An index is loaded from its file, or else built from the archive, and brought up to date with the
rows of the database that are not archived yet.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import structlog
from deltalake.exceptions import DeltaError

import sql
from archiver.chunks import locate
from archiver.delta.sequenced_table import CONTEXTS, SequencedTable
from archiver.errors import ArchiverError
from archiver.ingest import Catalog
from archiver.periodic import Timer
from archiver.storage import StorageRoot, as_storage
from archiver.times import micros_column
from recall.corpus_parts import CorpusKey, CorpusParts, PartHolder
from recall.learned_models import LearnedModels
from recall.ledger import Task, TaskSpec
from recall.requests import Piece, SimilarQuestion
from recall.similarity import CorpusEvent, Index, IndexStore, SimilarState, make_corpus_event
from recall.similarity.measures import TfIdfMeasure
from sql.events import ContextGateway
from sql.similarity import CorpusGateway

_LOG = structlog.get_logger()
# An index is saved again once it has grown by this many events and by this share.
_SAVE_MIN_EVENTS = 500
_SAVE_MIN_SHARE = 1 / 20
# An index that was not used for this long is dropped from memory.
_IDLE_TIMEOUT = 600.0  # seconds
_INDEX_FOLDER = "indexes"
# Between two searches for unused index files.
_CLEANUP_INTERVAL = 3600.0  # seconds


def build_corpus_key(rule: str, version: str, question: SimilarQuestion) -> CorpusKey:
    """The corpus that a question compares with."""
    numeric = question.numeric if question.measure == TfIdfMeasure.name else {}
    return CorpusKey(rule, version, question.contexts, tuple(sorted(numeric.items())))


class Corpora:
    """The indexes of this process, one for each corpus, loaded when first used.

    Indexes are saved next to the archive, so that the next process starts from them. An index that
    is no longer used, such as that of an earlier rule version, is dropped from memory, and its file
    is deleted some days later.
    """

    def __init__(
        self, connection: sql.Connection, root: StorageRoot, parts: CorpusParts | None = None
    ) -> None:
        """`parts`: decides what is held in memory; None: each corpus that is used, as a whole."""
        self._connection = connection
        self._contexts = ContextGateway(connection)
        self._learned_models = LearnedModels(connection)
        self._numbered_events = CorpusGateway(connection)
        self._root = root
        self._parts = parts
        self._indexes: dict[CorpusKey, Index] = {}
        self._last_used: dict[CorpusKey, float] = {}
        self._saved_sizes: dict[CorpusKey, int] = {}
        # The sequence number up to which an index is complete. Numbers are shared by all corpora.
        self._updated_to: dict[CorpusKey, int] = {}
        self._cleanup_timer = Timer(_CLEANUP_INTERVAL)

    def load_index(self, rule: str, version: str, question: SimilarQuestion) -> Index:
        """The index of a question's corpus, with all events that are settled now."""
        key = build_corpus_key(rule, version, question)
        index = self._updated_index(key)
        self._save_if_grown(index, key)
        self._evict_idle(key)
        return index

    def hold_parts(self) -> None:
        """Claim parts of the corpora that are in use, here or in other processes."""
        assert isinstance(self._parts, PartHolder)
        now = time.monotonic()
        for key in self._parts.list_wanted():
            if key in self._indexes:
                continue
            try:
                self._updated_index(key)
            except (ArchiverError, DeltaError, OSError) as error:  # tried again at the next time
                _LOG.warning("corpus not read", action="corpus_not_read", error=str(error))
            else:
                self._last_used.setdefault(key, now)
        for key, index in list(self._indexes.items()):
            is_used = now - self._last_used.get(key, now) <= _IDLE_TIMEOUT
            if not self._parts.hold(key, index, self._store(key), is_used):
                self._evict(key)

    def saved_number(self, key: CorpusKey) -> int | None:
        """The sequence number of the last event in the saved index; None if none is saved."""
        return self._store(key).last_sequence()

    def save_current(self, key: CorpusKey) -> int:
        """Save the index with all events that are settled now; returns the number of events."""
        index = self._updated_index(key)
        if self._saved_sizes[key] < len(index):
            self._save(index, key)
        return len(index)

    def _updated_index(self, key: CorpusKey) -> Index:
        index = self._indexes.get(key)
        if index is None:
            index = self._open_index(key)
            self._indexes[key] = index
            if self._parts is not None:
                self._parts.hold(key, index, self._store(key), is_used=True)
        self._update(index, key)
        return index

    def holders(self, task: TaskSpec) -> Mapping[int, int]:
        """By chunk, the lease of the other process that holds its part of a task's corpus."""
        if not isinstance(self._parts, PartHolder):
            return {}
        assert isinstance(task.question, SimilarQuestion)
        return self._parts.holders(build_corpus_key(task.rule, task.version, task.question))

    def begin_comparison(self, task: Task) -> SimilarState:
        """Start or resume the comparison of a task's event with its corpus.

        Uses the counts that are pinned for the task, the context of its event, and the partial
        answer stored so far.
        """
        spec, progress = task.spec, task.progress
        assert progress.corpus is not None and isinstance(spec.question, SimilarQuestion)
        index = self.load_index(spec.rule, spec.version, spec.question)
        context = self._load_context(spec)
        state = SimilarState.resume(
            index,
            spec.question,
            spec.event,
            progress.corpus,
            context,
            progress.partial_answer,
            self._learned_models.scorer_factory(progress.model, spec.event),
        )
        if progress.partial_answer is None:
            state.skip_pieces(progress.skipped)
        return state

    def find_model(self, spec: TaskSpec) -> int | None:
        """The learned model for a task that begins now; None: it ranks without one."""
        assert isinstance(spec.question, SimilarQuestion)
        return self._learned_models.find_usable(
            spec.rule, spec.version, spec.recall, spec.question, spec.event
        )

    def _load_context(self, task: TaskSpec) -> Any:
        """The contexts of a task's event as stored; empty if they have expired."""
        row = self._contexts.get(task.rule, task.version, task.event.eid)
        return {} if row is None else row.contexts

    def rank_by_expected_score(self, task: Task) -> list[Piece]:
        """The task's pieces by the expected score of their best event, highest first (stable)."""
        spec, pieces = task.spec, task.progress.pieces
        assert pieces is not None and isinstance(spec.question, SimilarQuestion)
        index = self.load_index(spec.rule, spec.version, spec.question)
        comparison = self.begin_comparison(task).comparison
        scores = index.expected_scores(comparison, [piece.range for piece in pieces])
        order = np.argsort(-np.asarray(scores), kind="stable")
        return [pieces[number] for number in order]

    def _open_index(self, key: CorpusKey) -> Index:
        store = self._store(key)
        index = store.load(dict(key.numeric), None if self._parts is None else ())
        if index is None:
            index = self._build_from_archive(key)
            self._saved_sizes[key] = 0
            _LOG.info("corpus read", action="corpus_read", rule=key.rule, events=len(index))
        else:
            self._saved_sizes[key] = len(index)
            self._updated_to[key] = store.complete_sequence() or index.last_sequence
        return index

    def _store(self, key: CorpusKey) -> IndexStore:
        folder = as_storage(self._root).work_folder / _INDEX_FOLDER
        return IndexStore.for_corpus(folder, key.rule, key.version, key[2:])

    def _build_from_archive(self, key: CorpusKey) -> Index:
        index = Index(dict(key.numeric))
        if not SequencedTable.exists(self._root, CONTEXTS):
            return index
        table = SequencedTable(self._root, CONTEXTS)
        self._updated_to[key] = table.last_number()
        if self._parts is not None:
            index.hold((), self._store(key).open_stored)
        for events in self._read_archived_events(table, index, key):
            _add_events(index, events)
            if self._parts is not None:
                self._store(key).write_segments(index)
                index.release_unheld()
        return index

    def _read_archived_events(
        self, table: SequencedTable, index: Index, key: CorpusKey
    ) -> Iterator[list[tuple[int, CorpusEvent]]]:
        """The archived events that the index does not have, chunk by chunk, each with its chunk."""
        after = index.last_sequence
        for rows in table.read_chunks(key.rule, key.version):
            columns = (
                micros_column(rows, "ts").tolist(),
                rows["chunk"].to_pylist(),
                rows["eid"].to_pylist(),
                rows["number"].to_pylist(),
                rows["contexts"].to_pylist(),
            )
            events = []
            for ts, chunk, eid, number, contexts in zip(*columns, strict=True):
                if int(number) > after:
                    event = make_corpus_event(
                        ts, eid, int(number), orjson.loads(contexts), key.contexts, index.numeric
                    )
                    events.append((chunk, event))
            yield events

    def _update(self, index: Index, key: CorpusKey) -> None:
        """Add the events that were settled since.

        Sequence numbers become visible in order: all up to the last one read before are complete.
        """
        rule, version, contexts, _ = key
        numbers = self._numbered_events.numbers()
        if key in self._updated_to and numbers.last <= self._updated_to[key]:
            return
        rows = self._numbered_events.list_after(rule, version, index.last_sequence)
        # Queried after the rows: it covers every row that was moved to the archive before the read.
        last_archived = self._numbered_events.numbers().deleted_to
        events: list[tuple[int, CorpusEvent]] = []
        archive_is_ahead = last_archived > self._updated_to.get(key, index.last_sequence)
        if archive_is_ahead:
            table = SequencedTable(self._root, CONTEXTS)
            for archived_events in self._read_archived_events(table, index, key):
                events += archived_events
        archived = {event.sequence for _, event in events}
        rows = [row for row in rows if row.number not in archived]
        if rows:
            times = np.array([row.ts for row in rows], dtype=np.int64)
            chunks = locate(Catalog(self._connection).chunks(), times).tolist()
            for chunk, row in zip(chunks, rows, strict=True):
                event = make_corpus_event(
                    row.ts,
                    str(row.eid),
                    row.number,
                    row.contexts,
                    contexts,
                    index.numeric,
                )
                events.append((chunk, event))
        _add_events(index, events)
        self._updated_to[key] = max(numbers.last, last_archived)
        if archive_is_ahead and not events and self._saved_sizes[key] == len(index):
            # Records that the archive has nothing new, so that it is not read again.
            self._try_to_save(index, key)

    def _save_if_grown(self, index: Index, key: CorpusKey) -> None:
        growth = len(index) - self._saved_sizes[key]
        if growth >= max(_SAVE_MIN_EVENTS, len(index) * _SAVE_MIN_SHARE):
            self._try_to_save(index, key)

    def _try_to_save(self, index: Index, key: CorpusKey) -> None:
        try:
            self._save(index, key)
        except OSError as error:  # such as a full disk: the index can be built from the archive
            _LOG.warning(
                "context index not written",
                action="corpus_not_written",
                rule=key.rule,
                error=str(error),
            )
            self._saved_sizes[key] = len(index)

    def _save(self, index: Index, key: CorpusKey) -> None:
        self._store(key).save(index, self._updated_to[key], time.time())
        self._saved_sizes[key] = len(index)

    def _evict_idle(self, used_key: CorpusKey) -> None:
        now = time.monotonic()
        self._last_used[used_key] = now
        for key, last_used in list(self._last_used.items()):
            if now - last_used > _IDLE_TIMEOUT:
                self._evict(key)
        if self._cleanup_timer.is_due(now):
            self._cleanup_timer.restart(now)
            for key in self._indexes:
                self._store(key).touch(time.time())
            IndexStore.remove_unused(
                as_storage(self._root).work_folder / _INDEX_FOLDER, time.time()
            )

    def _evict(self, key: CorpusKey) -> None:
        """Drop an index from memory."""
        del self._indexes[key], self._last_used[key], self._saved_sizes[key]
        self._updated_to.pop(key, None)
        if isinstance(self._parts, PartHolder):
            self._parts.forget(key)


def _add_events(index: Index, events: Sequence[tuple[int, CorpusEvent]]) -> None:
    events_by_chunk: dict[int, list[CorpusEvent]] = {}
    for chunk, event in events:
        events_by_chunk.setdefault(chunk, []).append(event)
    for chunk, chunk_events in events_by_chunk.items():
        index.add(chunk, chunk_events)
