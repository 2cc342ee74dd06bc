"""Compute SQL answers again, over the rows that existed when the recall ran.

An answer is a function of the question, the event with its contexts, the relations as of then, and
the rows that each of its queries read. The ledger stores how many appends of each stream a query
saw; `archiver.read.time_travel` restores those rows until their chunk expires.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import sql
from archiver.delta import StreamSchema
from archiver.errors import HistoryUnavailable
from archiver.ingest import Catalog
from archiver.read import ReaderAt
from archiver.storage import StorageRoot
from archiver.times import from_micros
from recall.engines import EventTables, LocalEngine, SparkEngine, Template, merge_partials
from recall.engines.routing import EngineRouter, EngineSetting, PartialCache
from recall.errors import QueryRejected, RecallError
from recall.query import Unsupported
from recall.relation_digests import has_read_valid_rows
from recall.replay.differences import describe_difference
from recall.replay.outcome import ReplayResult, not_reproducible
from recall.requests import (
    Piece,
    RecallEvent,
    SqlQuestion,
    enclosing_range,
    join_pieces,
    parse_question,
)
from sql.events import ContextGateway
from sql.recalls import RepeatableRow, ReplayGateway

_READS_NOT_RECORDED = "it was answered by a version that did not record which rows it read"

# A run of pieces that one query read as one, and how many appends of each stream existed then.
_PastRead = tuple[Piece, Mapping[str, int]]


class SqlReplayer:
    """Computes SQL answers again: a `recall.replay.outcome.Replayer`.

    `session` starts Spark if a question needs it. `relations` returns all versions of a relation;
    of those in `unversioned` only a digest of what was read is stored.
    """

    def __init__(
        self,
        connection: sql.Connection,
        root: StorageRoot,
        schemas: Sequence[StreamSchema],
        session: Callable[[], SparkSession],
        relations: Callable[[str], pa.Table],
        setting: EngineSetting = "auto",
        unversioned: frozenset[str] = frozenset(),
    ) -> None:
        self._unversioned = unversioned
        self._relations = relations
        self._connection = connection
        self._replay_gateway = ReplayGateway(connection)
        self._past_reader = ReaderAt(root, schemas)
        local = None if setting == "spark" else LocalEngine(self._past_reader)
        self._engines = EngineRouter(
            SparkEngine(session, self._past_reader, relations),
            local,
            # No cache: its keys are file names, and the files are different ones here.
            PartialCache(0),
            setting=setting,
        )

    def __call__(self, row: RepeatableRow) -> ReplayResult:
        try:
            question = parse_question(row.request)
            assert isinstance(question, SqlQuestion)
            template = Template(question)
            reads = list(parse_reads(row))
            if template.split.whole is not None and reads:
                # Its last query has read all pieces again.
                reads = [(join_pieces([piece for piece, _ in reads]), reads[-1][1])]
            expired = self._describe_expired(template, reads, row)
            if expired is not None:
                return not_reproducible(expired)
            answer = self._recompute(template, reads, row)
        except (_InputUnavailable, HistoryUnavailable) as reason:
            return not_reproducible(str(reason))
        except (KeyError, TypeError, QueryRejected, Unsupported) as reason:
            return not_reproducible(f"this version cannot run the stored query: {reason}")
        ordered = template.split.merge.args.get("order") is not None
        difference = describe_difference(row.answer, answer, ordered)
        if difference is None:
            return ReplayResult(answer, True)
        changed = self._describe_changed(template, row)
        if changed is not None:
            return ReplayResult(answer, None, changed)
        return ReplayResult(answer, False, difference)

    def _recompute(
        self, template: Template, reads: Sequence[_PastRead], row: RepeatableRow
    ) -> list[dict[str, Any]]:
        event = RecallEvent.from_json(row.eid, row.event)
        eid = str(event.eid)
        event_tables = self._load_event_tables(template, row)
        accumulator: pa.Table | None = None
        for piece, append_counts in reads:
            self._past_reader.append_counts = append_counts
            partials = self._engines.compute_partial(template, [(event, piece)], event_tables)
            accumulator = merge_partials(template, accumulator, partials.get(eid))
        answers = self._engines.compute_answers(template, [(event, accumulator)], event_tables)
        return [sql.replace_nul(answer_row) for answer_row in answers.get(eid, [])]

    def _load_event_tables(self, template: Template, row: RepeatableRow) -> EventTables:
        """The event's rows in the contexts and surroundings that the question names."""
        inputs = template.partial.inputs.event_tables | template.merge.inputs.event_tables
        names = inputs & template.question.own.keys()
        if not names:
            return {}
        gateway = ContextGateway(self._connection)
        stored = gateway.get(row.rule, row.version, row.eid)
        if stored is None:
            raise _InputUnavailable("the event's context has expired")
        eid = str(row.eid)
        tables: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for name in names:
            rows = stored.contexts.get(name) or stored.surroundings.get(name) or []
            tables[name] = {eid: rows}
        return tables

    def _describe_expired(
        self, template: Template, reads: Sequence[_PastRead], row: RepeatableRow
    ) -> str | None:
        """The first chunk that the answer read and that has expired since; or None."""
        if not reads:
            return None
        time_range = enclosing_range(piece for piece, _ in reads)
        input_range = time_range.shift(start=-template.partial.inputs.reach)
        chunks = {chunk.id: chunk for chunk in Catalog(self._connection).chunks()}
        assert row.pieces is not None
        first, end = _read_bounds(row.coverage)
        for chunk, *_ in row.pieces[first:end]:
            if chunk not in chunks:
                return f"chunk {chunk} has expired and its record was removed"
        for expired in self._replay_gateway.list_chunks_expired_since(row.started_at):
            if input_range.overlaps(chunks[expired.id].time_range):
                to_time = _format_time(from_micros(expired.to_ts))
                expired_at = _format_time(expired.expired_at)
                return f"chunk {expired.id} (event time up to {to_time}) expired at {expired_at}"
        return None

    def _describe_changed(self, template: Template, row: RepeatableRow) -> str | None:
        """Which input other than streams has changed since; None if none has."""
        inputs = [template.partial.inputs, template.merge.inputs]
        context_changed_at = self._replay_gateway.context_changed_at(
            row.rule, row.version, row.eid, row.started_at
        )
        own_tables = template.question.own.keys()
        reads_contexts = any(used.event_tables & own_tables for used in inputs)
        if context_changed_at is not None and reads_contexts:
            return f"the event's contexts changed at {_format_time(context_changed_at)}"
        relations = inputs[0].relations | inputs[1].relations
        changed_relation = self._replay_gateway.relation_changed_at(
            sorted(relations), from_micros(row.event["ts"]), row.started_at
        )
        if changed_relation is not None:
            name, changed_at = changed_relation
            return f"the relation {name} changed for the event's time at {_format_time(changed_at)}"
        for name in sorted(relations & self._unversioned):
            if not has_read_valid_rows(row.seen, name, self._relations(name), row.event["ts"]):
                return f"other rows of {name} were known before the event then"
        return None


class _InputUnavailable(RecallError):
    """An input of an answer was not stored, or has expired."""


def parse_reads(row: RepeatableRow) -> Iterator[_PastRead]:
    """The successful queries behind an answer, in order."""
    assert row.pieces is not None
    position, end = _read_bounds(row.coverage)
    for first, last, append_counts in row.seen:
        if last > end:
            break
        if first != position:
            raise _InputUnavailable(_READS_NOT_RECORDED)
        position = last
        if append_counts is not None:
            pieces = [Piece.from_json(stored) for stored in row.pieces[first:last]]
            yield join_pieces(pieces), append_counts
    if position != end:
        raise _InputUnavailable(_READS_NOT_RECORDED)


def _read_bounds(coverage: Mapping[str, Any]) -> tuple[int, int]:
    """The pieces that were read: the first one, and the first one after them."""
    first = coverage["by_summary"]
    return first, first + coverage["read"] + coverage["failed"]


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
