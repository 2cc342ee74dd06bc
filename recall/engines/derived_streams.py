"""Derived streams in the archive: read them if they cover a whole piece, else compute them."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import orjson

import sql
from archiver.chunks import Chunk
from archiver.delta import derived_tables, read_altered_types
from archiver.ingest import Catalog
from archiver.periodic import Periodic
from archiver.read import Reader, SnapshotReader
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from recall.engines.lru_cache import LruCache
from recall.engines.template import Template
from recall.query import tables_used
from sql.archive import DerivedChunkGateway

# Between two reads of which chunks are archived.
_REFRESH_INTERVAL = 1.0  # seconds


def compute_derived_version(
    stream: str,
    derived: Mapping[str, str],
    altered: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """A hash of the SQL of a derived stream and of all derived streams that it reads.

    `altered`: by stream, the types of columns that were changed such that values have another text.
    They are part of the version: rows archived before are computed again.
    """
    reached = {stream}
    to_visit = [stream]
    while to_visit:
        inputs = tables_used(derived[to_visit.pop()], derived.keys())
        to_visit += inputs - reached
        reached |= inputs
    definitions: dict[str, object] = {name: derived[name] for name in reached}
    for name in reached:
        for read_stream in tables_used(derived[name], altered.keys()):
            definitions[f"{read_stream} columns"] = dict(altered[read_stream])
    text = orjson.dumps(definitions, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


class DerivedStreamReader:
    """The archived derived streams, for one worker, which runs one query at a time.

    `reader` reads declared streams, and derived ones in the version of the last template given to
    `read_archived`.
    """

    def __init__(self, connection: sql.Connection, root: StorageRoot, streams: Reader) -> None:
        self._connection = connection
        self._root = root
        self._streams = streams
        self.reader = SnapshotReader(streams)
        self._refresh_task = Periodic("refresh", _REFRESH_INTERVAL, self._refresh)
        self._chunks: list[Chunk] = []
        # Both by (stream, version).
        self._archived_chunks: dict[tuple[str, str], set[int]] = {}
        self._readers: dict[tuple[str, str], Reader] = {}
        self._rewritten: LruCache[str, tuple[Template, Mapping[str, str]]] = LruCache()

    @cached_property
    def _altered(self) -> Mapping[str, Mapping[str, str]]:
        """Types of altered columns by stream. Columns do not change while a process runs."""
        schemas = [self._streams.schema(name) for name in self._streams.streams]
        return read_altered_types(self._root, schemas)

    def read_archived(self, template: Template, time_range: TimeRange) -> Template:
        """The query with its derived streams read as streams.

        Only if all of them are archived for all of the range; else unchanged.
        """
        self.reader.readers_by_stream.clear()
        if not template.question.derived:
            return template
        rewritten, versions = self._rewritten.get_or_create(
            repr(template.question), lambda: _rewrite_as_streams(template, self._altered)
        )
        if not versions:
            return template
        if not all(self._is_archived(version, time_range) for version in versions.items()):
            return template
        for stream, version in versions.items():
            reader = self._reader_for(stream, version)
            reader.refresh()
            self.reader.readers_by_stream[stream] = reader
        return rewritten

    def _reader_for(self, stream: str, version: str) -> Reader:
        key = stream, version
        if key not in self._readers:
            schema = derived_tables.open_table(self._root, stream, version).schema
            self._readers[key] = Reader(derived_tables.version_root(self._root, version), [schema])
        return self._readers[key]

    def _is_archived(self, key: tuple[str, str], time_range: TimeRange) -> bool:
        """Whether a derived stream, as (stream, version), is archived for all of a range."""
        self._refresh_task.run_if_due()
        chunks = set()
        for chunk in self._chunks:
            if chunk.time_range.overlaps(time_range):
                chunks.add(chunk.id)
        return bool(chunks) and chunks <= self._archived_chunks.get(key, set())

    def _refresh(self) -> None:
        self._chunks = Catalog(self._connection).chunks()
        self._archived_chunks = {}
        for row in DerivedChunkGateway(self._connection).list_readable():
            self._archived_chunks.setdefault((row.stream, row.version), set()).add(row.chunk)
        # The files of versions that are no longer listed are deleted: drop their readers.
        for key in self._readers.keys() - self._archived_chunks.keys():
            del self._readers[key]


def _rewrite_as_streams(
    template: Template, altered: Mapping[str, Mapping[str, str]]
) -> tuple[Template, Mapping[str, str]]:
    """The query with derived streams as streams, and the version of each derived stream."""
    question = template.question
    derived = tables_used(question.sql, question.derived.keys())
    streams = {**question.streams, **dict.fromkeys(derived, derived_tables.TIME_COLUMN)}
    read_streams = tables_used(question.sql, streams.keys())
    rewritten = replace(
        question, derived={}, streams={name: streams[name] for name in read_streams}
    )
    versions: dict[str, str] = {}
    for name in derived:
        versions[name] = compute_derived_version(name, question.derived, altered)
    return Template(rewritten), versions
