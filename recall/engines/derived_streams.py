"""Derived streams that are archived: read where they are there for a whole piece of history, else
computed as ever.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from psycopg import Connection

import sql
from archiver.chunks import Chunk
from archiver.delta import TIME_COLUMN, open_table, version_root
from archiver.ingest import Catalog
from archiver.read import Reader, SnapshotReader
from archiver.storage import StorageRoot
from recall.engines.lately import LruCache
from recall.engines.template import Template
from recall.query import tables_used

_QUERIES = sql.load("streams")
# Seconds between two looks at what is archived.
_REFRESH_INTERVAL = 1.0


def compute_derived_version(stream: str, derived: Mapping[str, str]) -> str:
    """Changes with the SQL of a derived stream, and of those that it reads."""
    needed: frozenset[str] = frozenset()
    more = frozenset({stream})
    while more:
        needed |= more
        more = (
            frozenset().union(*(tables_used(derived[name], derived.keys()) for name in more))
            - needed
        )
    text = orjson.dumps({name: derived[name] for name in needed}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


class DerivedStreamReader:
    """What is archived of derived streams, for one worker, which asks one thing at a time.

    `reader` finds the rows of declared streams, and those of derived ones as the question last
    given has them.
    """

    def __init__(self, connection: Connection[Any], root: StorageRoot, streams: Reader) -> None:
        self._connection = connection
        self._root = root
        self.reader = SnapshotReader(streams)
        self._last_refresh = -_REFRESH_INTERVAL
        self._chunks: list[Chunk] = []
        self._archived_chunks: dict[tuple[str, str], set[int]] = {}
        self._readers: dict[tuple[str, str], Reader] = {}
        self._rewritten: LruCache[str, tuple[Template, Mapping[str, str]]] = LruCache()

    def read_archived(self, template: Template, low: int | None, high: int) -> Template:
        """The question with its derived streams read as streams, if all of [low, high) is archived;
        else as it is.
        """
        self.reader.readers_by_stream.clear()
        if not template.question.derived:
            return template
        other, versions = self._rewritten.get_or_create(
            repr(template.question), lambda: _rewrite_as_streams(template)
        )
        if not versions or not all(self._is_archived(one, low, high) for one in versions.items()):
            return template
        for key in versions.items():
            if key not in self._readers:
                self._readers[key] = Reader(
                    version_root(self._root, key[1]), [open_table(self._root, *key).schema]
                )
            self._readers[key].refresh()
            self.reader.readers_by_stream[key[0]] = self._readers[key]
        return other

    def _is_archived(self, key: tuple[str, str], low: int | None, high: int) -> bool:
        now = time.monotonic()
        if now - self._last_refresh >= _REFRESH_INTERVAL:
            self._last_refresh = now
            self._chunks = Catalog(self._connection).chunks()
            self._archived_chunks = {}
            for stream, version, chunk in self._connection.execute(_QUERIES["there"]):
                self._archived_chunks.setdefault((stream, version), set()).add(chunk)
            # What is forgotten leaves the disk: nobody may look there again.
            self._readers = {
                key: reader for key, reader in self._readers.items() if key in self._archived_chunks
            }
        inside = [
            chunk.id
            for chunk in self._chunks
            if (low is None or chunk.to_ts is None or chunk.to_ts > low)
            and (chunk.from_ts is None or chunk.from_ts < high)
        ]
        return bool(inside) and self._archived_chunks.get(key, set()).issuperset(inside)


def _rewrite_as_streams(template: Template) -> tuple[Template, Mapping[str, str]]:
    question = template.question
    used = tables_used(question.sql, question.derived.keys())
    streams = {**question.streams, **dict.fromkeys(used, TIME_COLUMN)}
    read = tables_used(question.sql, streams.keys())
    other = replace(question, derived={}, streams={name: streams[name] for name in read})
    return Template(other), {name: compute_derived_version(name, question.derived) for name in used}
