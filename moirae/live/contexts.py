"""Contexts and surroundings of the events that recalls are about: provisional at once, settled when all is in.

What is to be done is read from the database (events without a context, contexts that are not settled), so that nothing
hangs on what this process remembers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import structlog
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

import sql
from archiver.times import from_micros
from moirae.live.guard import Guard, TookTooLong
from moirae.live.plan import Running
from moirae.live.rows import Rows
from moirae.rules.definition import Definition
from moirae.rules.requests import Ask, asks, lifted
from recall.ledger import Ledger
from recall.pending import JSON, Waiting, pending
from recall.query.bind import Physical
from recall.query.lift import HIGH, LOW, MOMENT, Lifted, Names
from recall.request import Asked

_LOG = structlog.get_logger()
_QUERIES = sql.load("contexts")

# Events in one statement.
_EVENTS = 100
# How often a context is computed that fails, before it is empty for good.
_TRIES = 3
# Rows of one context of one event; more are cut, newest insertion order aside.
_ROWS = 2000
# Microseconds that rows stay in memory beyond what the contexts of events of this moment need.
_SPARE = 60_000_000


@dataclass(frozen=True)
class _Asking:
    """A context query of a rule, rewritten for many events."""

    ask: Ask
    query: Lifted
    pending: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    """Of the event's attributes."""

    def spans(self, asked: Sequence[Asked]) -> list[tuple[int, int]]:
        """The event time that must be looked at for each event, in microseconds."""
        used = self.query.used
        before, after = self.ask.within + used.reach, self.ask.delay + max(used.lag, 0) + 1
        return [(event.ts - before, event.ts + after) for event in asked]


@dataclass(frozen=True)
class Found:
    """The rows of an event's contexts and surroundings, by name."""

    contexts: Mapping[str, list[dict[str, Any]]]
    surroundings: Mapping[str, list[dict[str, Any]]]


class Contexts:
    """Computes contexts on the live process's Spark session, where relations have views `relation_<name>`."""

    def __init__(self, spark: SparkSession, rows: Rows, connection: Connection[Any], guard: Guard) -> None:
        self._spark = spark
        self._guard = guard
        self._rows = rows
        self._connection = connection
        self._ledger = Ledger(connection)
        self._askings: dict[str, tuple[Definition, list[_Asking]]] = {}
        self._views = count()
        self._failed: dict[tuple[str, UUID], int] = {}

    def begin(self, running: Sequence[Running], watermarks: Mapping[str, int | None], since: Any) -> bool:
        """Contexts of events that have none, from what is there; of alerts written since a moment.

        Those of settled events that every stream has passed are settled at once. Returns whether there may be more.
        """
        wanted: list[tuple[Running, list[Asked]]] = []
        settled: set[UUID] = set()
        more = False
        for rule in running:
            if not self._of(rule):
                continue
            values = {**_of_rule(rule), "every": _every(rule), "since": since, "limit": _EVENTS}
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(_QUERIES["wanted"], values).fetchall()
            more = more or len(rows) == _EVENTS
            horizon = self._horizon(rule, watermarks)
            if horizon is not None:
                settled |= {row["eid"] for row in rows if row["settled"] and row["ts"] < horizon}
            if rows:
                wanted.append((rule, [_asked(row) for row in rows]))
        if wanted:
            found = self._compute(wanted)
            with self._connection.transaction():
                for rule, events in wanted:
                    missing = {e.eid for e in events if (rule.rule, e.eid) not in found}
                    found |= {(rule.rule, eid): self._found(rule, {}) for eid in missing}
                    self._put(rule, events, found, settled - missing)
                self._enter_corpus(running)
        return more

    def settle(self, running: Sequence[Running], watermarks: Mapping[str, int | None]) -> bool:
        """Contexts of settled events that every stream of their rule has passed; they enter the corpus.

        Where a context has changed, the event's similarity recalls begin again. Returns whether anything was settled.
        """
        due: list[tuple[Running, list[Asked]]] = []
        before: dict[tuple[str, UUID], Any] = {}
        for rule in running:
            horizon = self._horizon(rule, watermarks)
            if horizon is None:
                continue
            values = {**_of_rule(rule), "before": from_micros(horizon), "limit": _EVENTS}
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(_QUERIES["unsettled"], values).fetchall()
            if rows:
                due.append((rule, [_asked(row) for row in rows]))
                before |= {(rule.rule, row["eid"]): row["contexts"] for row in rows}
        found = self._compute(due) if due else {}
        due = [(rule, [event for event in events if self._may_settle(rule, event, found)]) for rule, events in due]
        with self._connection.transaction():
            for rule, events in due:
                self._put(rule, events, found, {event.eid for event in events})
                # Recalls that wait for this look at alerts that have changed.
                self._connection.execute(_QUERIES["touch"], {**_of_rule(rule), "eids": [e.eid for e in events]})
                for event in events:
                    if sql.storable(found[rule.rule, event.eid].contexts) != before[rule.rule, event.eid]:
                        self._ledger.again(event.eid, rule.definition.version)
            self._connection.execute(_QUERIES["forget"], {"every": _every_of(running)})
            self._enter_corpus(running)
        return any(events for _, events in due)

    def _may_settle(self, rule: Running, event: Asked, found: dict[tuple[str, UUID], Found]) -> bool:
        """Whether its context was computed, or has failed too often: then it is empty for good."""
        key = rule.rule, event.eid
        if key in found:
            self._failed.pop(key, None)
            return True
        self._failed[key] = self._failed.get(key, 0) + 1
        if self._failed[key] < _TRIES:
            return False
        del self._failed[key]
        found[key] = self._found(rule, {})
        return True

    def reach(self, rule: Running) -> int:
        """How far beyond an event (microseconds) time must go until its context can be settled."""
        return max((a.ask.delay + max(a.query.used.lag, 0) for a in self._of(rule)), default=0)

    def _enter_corpus(self, running: Sequence[Running]) -> None:
        """What is ready enters the corpus; later events that were compared without it are compared again."""
        entered: dict[tuple[str, str], int] = {}
        for rule, version, ts in self._connection.execute(_QUERIES["enter_corpus"], {"every": _every_of(running)}):
            entered[rule, version] = min(ts, entered.get((rule, version), ts))
        for (rule, version), oldest in entered.items():
            self._ledger.again_where_incomplete(rule, version, oldest)

    def needs(self, running: Sequence[Running], watermarks: Mapping[str, int | None]) -> dict[str, int]:
        """From which event time on the contexts of events to come look at each stream."""
        needs: dict[str, int] = {}
        for rule in running:
            for asking in self._of(rule):
                used = asking.query.used
                for stream in used.streams | used.derived:
                    mark = watermarks.get(stream)
                    if mark is not None:
                        low = mark - asking.ask.within - asking.ask.delay - used.reach - _SPARE
                        needs[stream] = min(needs.get(stream, low), low)
        return needs

    def _horizon(self, rule: Running, watermarks: Mapping[str, int | None]) -> int | None:
        """Contexts of events before this time can be settled."""
        askings = self._of(rule)
        if not askings:
            return None
        streams = rule.shape.streams.union(*(a.query.used.streams | a.query.used.derived for a in askings))
        marks = [watermarks.get(stream) for stream in streams]
        known = [mark for mark in marks if mark is not None]
        if len(known) < len(marks):
            return None
        return min(known) - self.reach(rule)

    def _of(self, rule: Running) -> list[_Asking]:
        known = self._askings.get(rule.rule)
        if known is None or known[0] is not rule.definition:
            made = [self._asking(rule, ask, f"pending_{next(self._views)}") for ask in asks(rule.definition)]
            known = self._askings[rule.rule] = rule.definition, made
        return known[1]

    def _asking(self, rule: Running, ask: Ask, view: str) -> _Asking:
        tables = {name: f"around_{name}" for name in rule.tables.streams}
        tables |= {name: f"relation_{name}" for name in rule.tables.relations}
        names = Names(Physical(tables), Physical(tables), view)
        query = lifted(ask, rule.definition, rule.tables, names)
        return _Asking(ask, query, view, tuple(rule.definition.answers[ask.name]), rule.definition.types)

    def _put(
        self, rule: Running, events: Sequence[Asked], found: Mapping[tuple[str, UUID], Found], settled: Collection[UUID]
    ) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(
                _QUERIES["put"],
                [
                    {
                        **_of_rule(rule),
                        "eid": event.eid,
                        "ts": from_micros(event.ts),
                        "contexts": Jsonb(sql.storable(found[rule.rule, event.eid].contexts)),
                        "surroundings": Jsonb(sql.storable(found[rule.rule, event.eid].surroundings)),
                        "settled": event.eid in settled,
                    }
                    for event in events
                ],
            )

    # Asking Spark

    def _compute(self, wanted: Sequence[tuple[Running, Sequence[Asked]]]) -> dict[tuple[str, UUID], Found]:
        """All contexts of some events of some rules; none, but a word in the log, for an event whose query fails."""
        together = self._guard.apart(wanted, lambda one: one[0].rule)
        return {key: found for group in together for key, found in self._compute_of(group).items()}

    def _compute_of(self, wanted: Sequence[tuple[Running, Sequence[Asked]]]) -> dict[tuple[str, UUID], Found]:
        try:
            rows = self._guard.run([rule for rule, _ in wanted], 0, lambda: self._ask(wanted))
        except (PySparkException, Py4JJavaError, TookTooLong, pa.ArrowException, LookupError, ValueError) as error:
            slow = isinstance(error, TookTooLong)
            parts = [[one] for one in wanted] if len(wanted) > 1 else [] if slow else _halves(*wanted[0])
            if len(parts) > 1:
                return {key: found for part in parts for key, found in self._compute_of(part).items()}
            if slow:
                self._guard.fail(wanted[0][0], error)
            message = str(error).strip().splitlines()[0]
            _LOG.error("context failed", action="context_failed", rule=wanted[0][0].rule, error=message)
            return {}
        return {
            (rule.rule, event.eid): self._found(rule, rows.get((rule.rule, str(event.eid)), {}))
            for rule, events in wanted
            for event in events
        }

    def _found(self, rule: Running, rows: Mapping[str, list[str]]) -> Found:
        parts: dict[bool, dict[str, list[dict[str, Any]]]] = {True: {}, False: {}}
        for asking in self._of(rule):
            # Sorted as text: the same rows are the same context.
            texts = sorted(rows.get(asking.ask.name, ()))[:_ROWS]
            parts[asking.ask.compared][asking.ask.name] = [orjson.loads(text) for text in texts]
        return Found(parts[True], parts[False])

    def _ask(self, wanted: Sequence[tuple[Running, Sequence[Asked]]]) -> dict[tuple[str, str], dict[str, list[str]]]:
        branches: list[str] = []
        askings: list[tuple[_Asking, Sequence[Asked]]] = []
        for number, (rule, events) in enumerate(wanted):
            frame = pending(self._spark, [Waiting(e, e.ts, e.ts) for e in events], rule.definition.types)
            for asking in self._of(rule):
                within, delay = asking.ask.within / 1e6, (asking.ask.delay + 1) / 1e6
                bounds = {
                    LOW: F.expr(f"{MOMENT} - INTERVAL '{within:.6f}' SECOND"),
                    HIGH: F.expr(f"{MOMENT} + INTERVAL '{delay:.6f}' SECOND"),
                }
                frame.withColumns(bounds).createOrReplaceTempView(asking.pending)
                branches.append(_branch(number, asking))
                askings.append((asking, events))
        self._streams(askings)
        found: dict[tuple[str, str], dict[str, list[str]]] = {}
        table = self._spark.sql(" UNION ALL ".join(branches)).toArrow()
        columns = (table[name].to_pylist() for name in ("rule", "name", "_eid", "row"))
        for number, name, eid, row in zip(*columns, strict=True):
            found.setdefault((wanted[number][0].rule, eid), {}).setdefault(name, []).append(row)
        return found

    def _streams(self, askings: Sequence[tuple[_Asking, Sequence[Asked]]]) -> None:
        """Views of what the queries look at, and no more."""
        for stream in frozenset().union(*(a.query.used.streams | a.query.used.derived for a, _ in askings)):
            readers = [(a, e) for a, e in askings if stream in a.query.used.streams | a.query.used.derived]
            spans = [span for asking, events in readers for span in asking.spans(events)]
            only = _only(stream, self._rows.columns(stream), readers)
            self._rows.around(stream, spans, only).createOrReplaceTempView(f"around_{stream}")


def _only(
    stream: str, columns: Mapping[str, str], readers: Sequence[tuple[_Asking, Sequence[Asked]]]
) -> dict[str, list[str]]:
    """Values of text columns to which all readers of a stream keep."""
    only: dict[str, set[str]] | None = None
    for asking, events in readers:
        mine: dict[str, set[str]] = {}
        for name, column, attribute in asking.query.used.pins if stream not in asking.query.used.derived else ():
            if name == stream and columns.get(column) == asking.types.get(attribute) == "string":
                values = (event.attributes.get(attribute) for event in events)
                mine[column] = {value for value in values if isinstance(value, str)}
        only = mine if only is None else {c: only[c] | mine[c] for c in only.keys() & mine.keys()}
    return {column: sorted(values) for column, values in (only or {}).items()}


def _branch(number: int, asking: _Asking) -> str:
    """The rows of one context as JSON. Values that are compared are texts, as Spark casts them."""
    cast = "CAST({0} AS STRING)" if asking.ask.compared else "{0}"
    names = [
        (exp.Literal.string(n).sql("spark"), exp.to_identifier(n, quoted=True).sql("spark")) for n in asking.columns
    ]
    values = ", ".join(f"{text}, {cast.format(name)}" for text, name in names)
    options = f"map('ignoreNullFields', 'false', 'timestampFormat', \"{JSON['timestampFormat']}\")"
    return (
        f"SELECT {number} AS rule, '{asking.ask.name}' AS name, _eid, "
        f"to_json(named_struct({values}), {options}) AS row FROM ({asking.query.sql})"
    )


def _halves(rule: Running, events: Sequence[Asked]) -> list[list[tuple[Running, Sequence[Asked]]]]:
    middle = len(events) // 2
    return [[(rule, part)] for part in (events[:middle], events[middle:]) if part]


def _of_rule(rule: Running) -> dict[str, Any]:
    return {"rule": rule.rule, "version": rule.definition.version}


def _every(rule: Running) -> bool:
    return rule.definition.rule.spec.recall_on == "every"


def _every_of(running: Sequence[Running]) -> list[str]:
    return [rule.rule for rule in running if _every(rule)]


def _asked(row: Mapping[str, Any]) -> Asked:
    return Asked(row["eid"], row["ts"], row["key"], row["attributes"])
