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
from archiver.chunk import Chunk
from archiver.place import Root
from archiver.times import from_micros
from moirae.rules.definition import Definition
from moirae.rules.questions import SimilarRecall
from moirae.rules.requests import similar_question
from recall.corpora import Corpora, Name, name_of

_LOG = structlog.get_logger()
_QUERIES = sql.load("contexts")

# Seconds between two times that a corpus is written; and at least so many times as long as that takes.
_LEAST, _PART = 1.0, 10.0
# Seconds between two looks where no chunk has closed.
_LOOK = 10.0


@dataclass(frozen=True)
class IndexWork:
    """A corpus that is to be written down."""

    name: Name


def compared(definitions: Iterable[Definition]) -> list[Name]:
    """The corpora that recalls of some rules ask for, each once. Pure."""
    return list(
        dict.fromkeys(
            name_of(one.name, one.version, similar_question(recall, one))
            for one in definitions
            for recall in one.rule.spec.recall.values()
            if isinstance(recall, SimilarRecall)
        )
    )


def closed_to(chunks: Iterable[Chunk]) -> int | None:
    """Up to where chunks are closed, microseconds. Pure."""
    return max((c.to_ts for c in chunks if c.state != "present" and c.to_ts is not None), default=None)


class Indexes:
    """`looking` and `working`: connections, as in `moirae.views.views`."""

    def __init__(self, looking: Connection[Any], working: Connection[Any], root: Root) -> None:
        self._looking = looking
        self._working = working
        self._root = root
        # When each may be written again; none has been looked at yet that is not here.
        self._due: dict[Name, float] = {}
        # The end of closed chunks when nothing was to be done, and when to look again.
        self._idle: int | None = None
        self._look = 0.0

    def next(self, names: Collection[Name], chunks: Iterable[Chunk]) -> IndexWork | None:
        """What is to be written next: a corpus that lacks events of closed chunks; and once in the life of a process
        each, to see that it can be read."""
        end, now = closed_to(chunks), time.monotonic()
        if end is None or (self._idle == end and now < self._look and self._due.keys() >= set(names)):
            return None
        corpora = Corpora(self._looking, self._root)
        all_looked_at = True
        for name in names:
            if now < self._due.get(name, now):
                all_looked_at = False
                continue
            values = {"rule": name.rule, "version": name.version, "before": from_micros(end)}
            row = self._looking.execute(_QUERIES["not_in"], {**values, "number": corpora.written(name) or 0}).fetchone()
            if name not in self._due or (row is not None and row[0]):
                return IndexWork(name)
        if all_looked_at:
            self._idle, self._look = end, now + _LOOK
        return None

    def make(self, work: IndexWork) -> None:
        """Write a corpus down, with all that is settled by now."""
        began = time.monotonic()
        try:
            events = Corpora(self._working, self._root).write(work.name)
        except OSError as error:  # such as a full disk: the archive has all of it
            _LOG.warning("corpus not written", action="corpus_not_written", rule=work.name.rule, error=str(error))
        else:
            _LOG.info("corpus written", action="corpus_written", rule=work.name.rule, events=events)
        now = time.monotonic()
        self._due[work.name] = now + max(_LEAST, _PART * (now - began))
