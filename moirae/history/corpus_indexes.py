"""Corpora written down ahead: when a chunk closes, before any similarity recall asks for them.

An index on disk holds the inverted lists of each chunk and what its terms promise (`recall.similarity.store`). Whether
it is whole is told by the number of the last event in it: nothing else is recorded, so that an index that was removed
or is damaged is made again.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from psycopg import Connection

import sql
from archiver.chunks import Chunk
from archiver.storage import StorageRoot
from archiver.times import from_micros
from moirae.rules import Definition, SimilarRecall, build_similar_question
from recall.corpora import Corpora, CorpusKey, build_corpus_key

_LOG = structlog.get_logger()
_QUERIES = sql.load("contexts")

# Seconds between two times that a corpus is written; and at least so many times as long as that takes.
_MIN_WRITE_INTERVAL, _WRITE_INTERVAL_FACTOR = 1.0, 10.0
# Seconds between two looks where no chunk has closed.
_POLL_INTERVAL = 10.0


@dataclass(frozen=True)
class IndexTask:
    """A corpus that is to be written down."""

    key: CorpusKey


def corpora_of_rules(definitions: Iterable[Definition]) -> list[CorpusKey]:
    """The corpora that recalls of some rules ask for, each once. Pure."""
    return list(
        dict.fromkeys(
            build_corpus_key(one.name, one.version, build_similar_question(recall, one))
            for one in definitions
            for recall in one.rule.spec.recall.values()
            if isinstance(recall, SimilarRecall)
        )
    )


def closed_until(chunks: Iterable[Chunk]) -> int | None:
    """Up to where chunks are closed, microseconds. Pure."""
    return max(
        (c.to_ts for c in chunks if c.state != "present" and c.to_ts is not None), default=None
    )


class IndexBuilder:
    """`looking` and `working`: connections, as in `moirae.history.builder`."""

    def __init__(
        self,
        planning_connection: Connection[Any],
        execution_connection: Connection[Any],
        root: StorageRoot,
    ) -> None:
        self._planning = planning_connection
        self._execution = execution_connection
        self._root = root
        # When each may be written again; none has been looked at yet that is not here.
        self._next_writes: dict[CorpusKey, float] = {}
        # The end of closed chunks when nothing was to be done, and when to look again.
        self._complete_until: int | None = None
        self._next_check = 0.0

    def next_task(self, keys: Collection[CorpusKey], chunks: Iterable[Chunk]) -> IndexTask | None:
        """What is to be written next: a corpus that lacks events of closed chunks; and once in the life of a process
        each, to see that it can be read."""
        end, now = closed_until(chunks), time.monotonic()
        if end is None or (
            self._complete_until == end
            and now < self._next_check
            and self._next_writes.keys() >= set(keys)
        ):
            return None
        corpora = Corpora(self._planning, self._root)
        all_looked_at = True
        for name in keys:
            if now < self._next_writes.get(name, now):
                all_looked_at = False
                continue
            values = {"rule": name.rule, "version": name.version, "before": from_micros(end)}
            row = self._planning.execute(
                _QUERIES["not_in"], {**values, "number": corpora.saved_number(name) or 0}
            ).fetchone()
            if name not in self._next_writes or (row is not None and row[0]):
                return IndexTask(name)
        if all_looked_at:
            self._complete_until, self._next_check = end, now + _POLL_INTERVAL
        return None

    def execute(self, task: IndexTask) -> None:
        """Write a corpus down, with all that is settled by now."""
        began = time.monotonic()
        try:
            events = Corpora(self._execution, self._root).save_current(task.key)
        except OSError as error:  # such as a full disk: the archive has all of it
            _LOG.warning(
                "corpus not written",
                action="corpus_not_written",
                rule=task.key.rule,
                error=str(error),
            )
        else:
            _LOG.info("corpus written", action="corpus_written", rule=task.key.rule, events=events)
        now = time.monotonic()
        self._next_writes[task.key] = now + max(
            _MIN_WRITE_INTERVAL, _WRITE_INTERVAL_FACTOR * (now - began)
        )
