"""SQL answers computed again, over the rows that were there then.

An answer follows from the question, the event with its contexts, relations as they were known, and the rows that each
of its queries read: those of so many appends to each stream (`archiver.asof`), until their chunk expires.
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
from archiver.asof import AsOf, NotTold
from archiver.catalog import Catalog
from archiver.place import Root
from archiver.schema import StreamSchema
from archiver.times import from_micros
from recall.engines.chosen import Choice, Engines
from recall.engines.kept import Kept
from recall.engines.local import LocalEngine
from recall.engines.spark import SparkEngine
from recall.engines.template import Own, Template, merged
from recall.gate import Refusal
from recall.query.shape import Unsupported
from recall.repeating import Again, lost
from recall.request import Asked, Piece, SqlQuestion, question, whole

_RECALLS, _CONTEXTS = sql.load("recalls"), sql.load("contexts")
# Fractions are equal when they differ by less than this part.
_EQUAL = 1e-9
# Whole numbers beyond this may be fractions that were stored without their point.
_EXACT = 1 << 53

# A run of pieces that one query read as one, and how many appends of each stream were there.
_Read = tuple[Piece, Mapping[str, int]]
_Rows = Sequence[Mapping[str, Any]]


class SqlAgain:
    """See `recall.repeating.Asks`. `session` starts Spark where a question needs it; `relations` gives all versions of
    a relation."""

    def __init__(
        self,
        connection: Connection[Any],
        root: Root,
        schemas: Sequence[StreamSchema],
        session: Callable[[], SparkSession],
        relations: Callable[[str], pa.Table],
        choice: Choice = "auto",
    ) -> None:
        self._connection = connection
        self._then = AsOf(root, schemas)
        local = None if choice == "spark" else LocalEngine(self._then)
        # What is kept of answers goes by files, which are others now.
        self._engines = Engines(SparkEngine(session, self._then, relations), local, Kept(0), choice=choice)

    def __call__(self, row: Mapping[str, Any]) -> Again:
        try:
            asking = question(row["request"])
            assert isinstance(asking, SqlQuestion)
            template = Template(asking)
            reads = list(_reads(row))
            gone = self._gone(template, reads, row)
            if gone is not None:
                return lost(gone)
            answer = self._asked(template, reads, row)
        except (_NotKept, NotTold) as reason:
            return lost(str(reason))
        except (KeyError, TypeError, Refusal, Unsupported) as reason:
            return lost(f"this version does not ask what was asked then: {reason}")
        ordered = template.split.merge.args.get("order") is not None
        why = _difference(row["answer"], answer, ordered)
        changed = None if why is None else self._changed(template, row)
        return Again(answer, None if changed else why is None, changed or why)

    def _asked(self, template: Template, reads: Sequence[_Read], row: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked, own = Asked.from_json(row["eid"], row["event"]), self._own(template, row)
        held: pa.Table | None = None
        for piece, appends in reads:
            self._then.appends = appends
            found = self._engines.partial(template, [(asked, piece)], own)
            held = merged(template, held, found.get(str(asked.eid)))
        answer = self._engines.answer(template, [(asked, held)], own).get(str(asked.eid), [])
        return [sql.storable(one) for one in answer]

    def _own(self, template: Template, row: Mapping[str, Any]) -> Own:
        """The event's rows of the rule's own tables that the question names."""
        named = (template.partial.used.own | template.merge.used.own) & template.question.own.keys()
        if not named:
            return {}
        found = self._connection.execute(_CONTEXTS["context"], {"eids": [row["eid"]]}).fetchall()
        mine = [one[4:6] for one in found if (one[0], one[1]) == (row["rule"], row["version"])]
        if not mine:
            raise _NotKept("the event's context has expired")
        contexts, surroundings = mine[0]
        return {name: {str(row["eid"]): contexts.get(name) or surroundings.get(name) or []} for name in named}

    def _gone(self, template: Template, reads: Sequence[_Read], row: Mapping[str, Any]) -> str | None:
        """Of what was read, what has expired since."""
        if not reads:
            return None
        used = template.partial.used
        low, high = whole(piece for piece, _ in reads)
        low = None if low is None else low - used.reach
        known = {chunk.id for chunk in Catalog(self._connection).chunks()}
        for chunk, _, _ in row["pieces"][slice(*_span(row["coverage"]))]:
            if chunk not in known:
                return f"chunk {chunk} has expired, so long ago that nothing more is known of it"
        with self._connection.cursor(row_factory=dict_row) as cursor:
            gone = cursor.execute(_RECALLS["gone_since"], {"moment": row["started_at"]}).fetchall()
        for chunk in gone:
            if (low is None or chunk["to_ts"] > low) and (chunk["from_ts"] is None or chunk["from_ts"] < high):
                end, since = _time(from_micros(chunk["to_ts"])), _time(chunk["expired_at"])
                return f"chunk {chunk['id']}, event time up to {end}, has expired: since {since}"
        return None

    def _changed(self, template: Template, row: Mapping[str, Any]) -> str | None:
        """What else the answer came from has changed since."""
        used = [template.partial.used, template.merge.used]
        about = {"rule": row["rule"], "version": row["version"], "eid": row["eid"], "moment": row["started_at"]}
        found = self._connection.execute(_RECALLS["context_since"], about).fetchone()
        if found is not None and any(one.own & template.question.own.keys() for one in used):
            return f"the event's contexts are others since {_time(found[0])}"
        relations = {"relations": sorted(set().union(*(one.relations for one in used)))}
        moment = {"ts": from_micros(row["event"]["ts"]), "moment": row["started_at"]}
        for name, at in self._connection.execute(_RECALLS["relations_since"], {**relations, **moment}):
            return f"the relation {name} has other rows for the event's time since {_time(at)}"
        return None


class _NotKept(Exception):
    """What an answer came from is not stored, or not any more."""


def _reads(row: Mapping[str, Any]) -> Iterator[_Read]:
    """The queries behind an answer that have given something, in order."""
    at, done = _span(row["coverage"])
    for first, upto, appends in row["seen"]:
        if upto > done:
            break
        if first != at:
            raise _NotKept(_EARLIER)
        at = upto
        if appends is not None:
            taken: list[Piece] = [(chunk, low, high) for chunk, low, high in row["pieces"][first:upto]]
            yield (taken[0][0], *whole(taken)), appends
    if at != done:
        raise _NotKept(_EARLIER)


_EARLIER = "it was asked by a version that did not keep which rows it read"


def _span(coverage: Mapping[str, Any]) -> tuple[int, int]:
    """The first piece that was read, and the first after those."""
    first = coverage["by_summary"]
    return first, first + coverage["read"] + coverage["failed"]


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def _difference(before: _Rows, now: _Rows, ordered: bool) -> str | None:
    """Where two answers differ. Rows that nobody has ordered are compared in one order, whatever digits their fractions
    end with."""
    if len(before) != len(now):
        return f"there were {len(before)} rows, now there are {len(now)}"
    if not ordered:
        before, now = sorted(before, key=_place), sorted(now, key=_place)
    for number, (old, new) in enumerate(zip(before, now, strict=True), start=1):
        for name in old:
            if not _alike(old[name], new.get(name)):
                return f"row {number}: {name} was {old[name]}, now it is {new.get(name)}"
    return None


def _place(row: Mapping[str, Any]) -> tuple[bytes, list[float]]:
    """First by what is exact, then by the rest: as stored, columns have another order and large fractions no point."""
    fractions = {name: value for name, value in sorted(row.items()) if _is_fraction(value)}
    rest = {name: value for name, value in row.items() if name not in fractions}
    return orjson.dumps(rest, option=orjson.OPT_SORT_KEYS), list(fractions.values())


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > _EXACT)


def _alike(one: Any, other: Any) -> bool:
    """Equal, fractions to nine digits."""
    if isinstance(one, float | int) and isinstance(other, float | int) and not isinstance(one, bool):
        return one == other or math.isclose(one, other, rel_tol=_EQUAL)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    return bool(one == other)
