"""Writes corpus indexes to disk when a chunk closes, before a similarity recall needs them.

An index holds the inverted lists and bounds of each chunk (`recall.similarity.store`). The number
of its last event says whether it is complete. No other state is recorded, so that a removed or
damaged index is written again.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import structlog

import sql
from archiver.chunks import Chunk
from archiver.periodic import Clock, Timer
from archiver.storage import StorageRoot
from archiver.times import Micros, from_micros
from moirae.rules import Definition, SimilarRecall
from recall.corpora import Corpora, build_corpus_key
from recall.corpus_parts import CorpusKey, CorpusParts
from sql.similarity import CorpusGateway

_LOG = structlog.get_logger()

_MIN_WRITE_INTERVAL = 1.0  # seconds between two writes of a corpus
_WRITE_INTERVAL_FACTOR = 10.0  # the interval is at least this multiple of the time of a write
_POLL_INTERVAL = 10.0  # seconds between two checks while no chunk closes


@dataclass(frozen=True)
class IndexTask:
    """A corpus to write."""

    key: CorpusKey


def corpora_of_rules(definitions: Iterable[Definition]) -> list[CorpusKey]:
    """The corpora of the similarity recalls of rules, without duplicates."""
    keys: dict[CorpusKey, None] = {}
    for definition in definitions:
        for recall in definition.recalls.values():
            if isinstance(recall, SimilarRecall):
                question = definition.build_similar_question(recall)
                keys[build_corpus_key(definition.name, definition.version, question)] = None
    return list(keys)


def closed_until(chunks: Iterable[Chunk]) -> Micros | None:
    """The end of the newest closed chunk, in microseconds; None if no chunk is closed."""
    ends = [chunk.to_ts for chunk in chunks if chunk.state != "present" and chunk.to_ts is not None]
    return max(ends, default=None)


class IndexBuilder:
    """Plans and writes corpus indexes; the connections are those of `HistoryBuilder`."""

    def __init__(
        self,
        planning_connection: sql.Connection,
        execution_connection: sql.Connection,
        root: StorageRoot,
        clock: Clock = time.monotonic,
    ) -> None:
        self._planning = planning_connection
        self._corpus_gateway = CorpusGateway(planning_connection)
        self._execution = execution_connection
        self._root = root
        self.parts: CorpusParts | None = None
        """See `Corpora`."""
        self._clock = clock
        # When each corpus may be written again. Corpora not listed have not been checked yet.
        self._write_timers: dict[CorpusKey, Timer] = {}
        # The end of closed chunks for which all indexes are complete, and the next check.
        self._complete_until: Micros | None = None
        self._check_timer = Timer(_POLL_INTERVAL, clock=clock)

    def next_task(self, keys: Collection[CorpusKey], chunks: Iterable[Chunk]) -> IndexTask | None:
        """The next corpus to write: one that lacks events of closed chunks.

        Each corpus is also written once per process, to verify that it can be read.
        """
        end = closed_until(chunks)
        if end is None or self._is_complete(keys, end):
            return None
        corpora = Corpora(self._planning, self._root)
        all_checked = True
        for key in keys:
            write_timer = self._write_timers.get(key)
            if write_timer is not None and not write_timer.is_due():
                all_checked = False
                continue
            is_outdated = self._corpus_gateway.has_later(
                key.rule,
                key.version,
                number=corpora.saved_number(key) or 0,
                before=from_micros(end),
            )
            if is_outdated or write_timer is None:
                return IndexTask(key)
        if all_checked:
            self._complete_until = end
            self._check_timer.restart()
        return None

    def _is_complete(self, keys: Collection[CorpusKey], end: Micros) -> bool:
        all_known = self._write_timers.keys() >= set(keys)
        return all_known and self._complete_until == end and not self._check_timer.is_due()

    def execute(self, task: IndexTask) -> None:
        """Write the index of a corpus with all events settled by now."""
        started_at = self._clock()
        try:
            events = Corpora(self._execution, self._root, self.parts).save_current(task.key)
        except OSError as error:  # such as a full disk: recalls read the archive instead
            _LOG.warning(
                "context index not written",
                action="corpus_not_written",
                rule=task.key.rule,
                error=str(error),
            )
        else:
            _LOG.info(
                "context index written",
                action="corpus_written",
                rule=task.key.rule,
                events=events,
            )
        seconds = self._clock() - started_at
        interval = max(_MIN_WRITE_INTERVAL, _WRITE_INTERVAL_FACTOR * seconds)
        self._write_timers[task.key] = Timer(interval, first_after=interval, clock=self._clock)
