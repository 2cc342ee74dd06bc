"""SQL answers computed again, over the rows that were there then.

An answer follows from the question, the event with its contexts, relations as they were known, and the rows that each
of its queries read: those of so many appends to each stream (`archiver.read.time_travel`), until their chunk expires.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

import sql
from archiver.delta import StreamSchema
from archiver.errors import HistoryUnavailable
from archiver.ingest import Catalog
from archiver.read import ReaderAt
from archiver.storage import StorageRoot
from archiver.times import from_micros
from recall.engines import (
    EngineRouter,
    EngineSetting,
    EventTables,
    LocalEngine,
    PartialCache,
    SparkEngine,
    Template,
    merge_partials,
)
from recall.errors import QueryRejected, RecallError
from recall.query import Unsupported
from recall.replay.outcome import ReplayResult, not_reproducible
from recall.requests import Piece, RecallEvent, SqlQuestion, enclosing_range, parse_question

_RECALLS, _CONTEXTS = sql.load("recalls"), sql.load("contexts")
# Fractions are equal when they differ by less than this part.
_RELATIVE_TOLERANCE = 1e-9
# Whole numbers beyond this may be fractions that were stored without their point.
_MAX_EXACT_INTEGER = 1 << 53

# A run of pieces that one query read as one, and how many appends of each stream were there.
_PastRead = tuple[Piece, Mapping[str, int]]
_Rows = Sequence[Mapping[str, Any]]


class SqlReplayer:
    """See `recall.replay.outcome.Asks`. `session` starts Spark where a question needs it; `relations` gives all versions of
    a relation."""

    def __init__(
        self,
        connection: Connection[Any],
        root: StorageRoot,
        schemas: Sequence[StreamSchema],
        session: Callable[[], SparkSession],
        relations: Callable[[str], pa.Table],
        choice: EngineSetting = "auto",
    ) -> None:
        self._connection = connection
        self._past_reader = ReaderAt(root, schemas)
        local = None if choice == "spark" else LocalEngine(self._past_reader)
        # What is kept of answers goes by files, which are others now.
        self._engines = EngineRouter(
            SparkEngine(session, self._past_reader, relations),
            local,
            PartialCache(0),
            setting=choice,
        )

    def __call__(self, row: Mapping[str, Any]) -> ReplayResult:
        try:
            asking = parse_question(row["request"])
            assert isinstance(asking, SqlQuestion)
            template = Template(asking)
            reads = list(_parse_reads(row))
            gone = self._describe_expired(template, reads, row)
            if gone is not None:
                return not_reproducible(gone)
            answer = self._recompute(template, reads, row)
        except (_InputUnavailable, HistoryUnavailable) as reason:
            return not_reproducible(str(reason))
        except (KeyError, TypeError, QueryRejected, Unsupported) as reason:
            return not_reproducible(f"this version does not ask what was asked then: {reason}")
        ordered = template.split.merge.args.get("order") is not None
        why = _describe_difference(row["answer"], answer, ordered)
        changed = None if why is None else self._describe_changed(template, row)
        return ReplayResult(answer, None if changed else why is None, changed or why)

    def _recompute(
        self, template: Template, reads: Sequence[_PastRead], row: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        asked, own = (
            RecallEvent.from_json(row["eid"], row["event"]),
            self._load_event_tables(template, row),
        )
        held: pa.Table | None = None
        for piece, appends in reads:
            self._past_reader.append_counts = appends
            found = self._engines.compute_partial(template, [(asked, piece)], own)
            held = merge_partials(template, held, found.get(str(asked.eid)))
        answer = self._engines.compute_answers(template, [(asked, held)], own).get(
            str(asked.eid), []
        )
        return [sql.replace_nul(one) for one in answer]

    def _load_event_tables(self, template: Template, row: Mapping[str, Any]) -> EventTables:
        """The event's rows of the rule's own tables that the question names."""
        named = (
            template.partial.inputs.event_tables | template.merge.inputs.event_tables
        ) & template.question.own.keys()
        if not named:
            return {}
        found = self._connection.execute(_CONTEXTS["context"], {"eids": [row["eid"]]}).fetchall()
        mine = [one[4:6] for one in found if (one[0], one[1]) == (row["rule"], row["version"])]
        if not mine:
            raise _InputUnavailable("the event's context has expired")
        contexts, surroundings = mine[0]
        return {
            name: {str(row["eid"]): contexts.get(name) or surroundings.get(name) or []}
            for name in named
        }

    def _describe_expired(
        self, template: Template, reads: Sequence[_PastRead], row: Mapping[str, Any]
    ) -> str | None:
        """Of what was read, what has expired since."""
        if not reads:
            return None
        used = template.partial.inputs
        low, high = enclosing_range(piece for piece, _ in reads)
        low = None if low is None else low - used.reach
        known = {chunk.id for chunk in Catalog(self._connection).chunks()}
        for chunk, _, _ in row["pieces"][slice(*_read_bounds(row["coverage"]))]:
            if chunk not in known:
                return f"chunk {chunk} has expired, so long ago that nothing more is known of it"
        with self._connection.cursor(row_factory=dict_row) as cursor:
            gone = cursor.execute(_RECALLS["gone_since"], {"moment": row["started_at"]}).fetchall()
        for chunk in gone:
            if (low is None or chunk["to_ts"] > low) and (
                chunk["from_ts"] is None or chunk["from_ts"] < high
            ):
                end, since = (
                    _format_time(from_micros(chunk["to_ts"])),
                    _format_time(chunk["expired_at"]),
                )
                return f"chunk {chunk['id']}, event time up to {end}, has expired: since {since}"
        return None

    def _describe_changed(self, template: Template, row: Mapping[str, Any]) -> str | None:
        """What else the answer came from has changed since."""
        used = [template.partial.inputs, template.merge.inputs]
        about = {
            "rule": row["rule"],
            "version": row["version"],
            "eid": row["eid"],
            "moment": row["started_at"],
        }
        found = self._connection.execute(_RECALLS["context_since"], about).fetchone()
        if found is not None and any(
            one.event_tables & template.question.own.keys() for one in used
        ):
            return f"the event's contexts are others since {_format_time(found[0])}"
        relations = {"relations": sorted(set().union(*(one.relations for one in used)))}
        moment = {"ts": from_micros(row["event"]["ts"]), "moment": row["started_at"]}
        for name, at in self._connection.execute(
            _RECALLS["relations_since"], {**relations, **moment}
        ):
            return (
                f"the relation {name} has other rows for the event's time since {_format_time(at)}"
            )
        return None


class _InputUnavailable(RecallError):
    """What an answer came from is not stored, or not any more."""


def _parse_reads(row: Mapping[str, Any]) -> Iterator[_PastRead]:
    """The queries behind an answer that have given something, in order."""
    at, done = _read_bounds(row["coverage"])
    for first, upto, appends in row["seen"]:
        if upto > done:
            break
        if first != at:
            raise _InputUnavailable(_READS_NOT_RECORDED)
        at = upto
        if appends is not None:
            taken: list[Piece] = [
                (chunk, low, high) for chunk, low, high in row["pieces"][first:upto]
            ]
            yield (taken[0][0], *enclosing_range(taken)), appends
    if at != done:
        raise _InputUnavailable(_READS_NOT_RECORDED)


_READS_NOT_RECORDED = "it was asked by a version that did not keep which rows it read"


def _read_bounds(coverage: Mapping[str, Any]) -> tuple[int, int]:
    """The first piece that was read, and the first after those."""
    first = coverage["by_summary"]
    return first, first + coverage["read"] + coverage["failed"]


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def _describe_difference(before: _Rows, now: _Rows, ordered: bool) -> str | None:
    """Where two answers differ. Rows that nobody has ordered are compared in one order, whatever digits their fractions
    end with."""
    if len(before) != len(now):
        return f"there were {len(before)} rows, now there are {len(now)}"
    if not ordered:
        before, now = sorted(before, key=_sort_key), sorted(now, key=_sort_key)
    for number, (old, new) in enumerate(zip(before, now, strict=True), start=1):
        for name in old:
            if not _are_equal(old[name], new.get(name)):
                return f"row {number}: {name} was {old[name]}, now it is {new.get(name)}"
    return None


def _sort_key(row: Mapping[str, Any]) -> tuple[bytes, list[float]]:
    """First by what is exact, then by the rest: as stored, columns have another order and large fractions no point."""
    fractions = {name: value for name, value in sorted(row.items()) if _is_fraction(value)}
    rest = {name: value for name, value in row.items() if name not in fractions}
    return orjson.dumps(rest, option=orjson.OPT_SORT_KEYS), list(fractions.values())


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > _MAX_EXACT_INTEGER)


def _are_equal(one: Any, other: Any) -> bool:
    """Equal, fractions to nine digits."""
    if (
        isinstance(one, float | int)
        and isinstance(other, float | int)
        and not isinstance(one, bool)
    ):
        return one == other or math.isclose(one, other, rel_tol=_RELATIVE_TOLERANCE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _are_equal(one[name], other[name]) for name in one
        )
    return bool(one == other)
