"""Contexts and surroundings computed: the queries of some rules about some events, as one Spark statement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from uuid import UUID

import orjson
import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from moirae.judging.guard import Guard, TookTooLong
from moirae.judging.plan import Running
from moirae.rules.definition import Definition
from moirae.rules.requests import Ask, asks, lifted
from recall.pending import JSON, Waiting, pending
from recall.query.bind import Physical
from recall.query.lift import HIGH, LOW, MOMENT, Lifted, Names
from recall.request import Asked

_LOG = structlog.get_logger()

# Rows of one context of one event; more are cut, newest insertion order aside.
_ROWS = 2000


class StreamRows(Protocol):
    """On-time rows of the archive, near some events."""

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""

    def around(self, stream: str, spans: Sequence[tuple[int, int]], only: Mapping[str, Sequence[Any]]) -> DataFrame:
        """Rows with event times in any of some spans [low, high), microseconds, and values that are wanted."""


@dataclass(frozen=True)
class Asking:
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


def asking(rule: Running, ask: Ask, view: str) -> Asking:
    """A context query for the events in a view."""
    tables = {name: f"around_{name}" for name in rule.tables.streams}
    tables |= {name: f"relation_{name}" for name in rule.tables.relations}
    names = Names(Physical(tables), Physical(tables), view)
    query = lifted(ask, rule.definition, rule.tables, names)
    return Asking(ask, query, view, tuple(rule.definition.answers[ask.name]), rule.definition.types)


def reach(askings: Sequence[Asking]) -> int:
    """How far beyond an event (microseconds) time must go until its context can be settled."""
    return max((a.ask.delay + max(a.query.used.lag, 0) for a in askings), default=0)


def horizon(rule: Running, askings: Sequence[Asking], watermarks: Mapping[str, int | None]) -> int | None:
    """Contexts of events before this time can be settled; None: there are none, or not yet."""
    streams = rule.shape.streams.union(*(a.query.used.streams | a.query.used.derived for a in askings))
    marks = [watermarks.get(stream) for stream in streams]
    known = [mark for mark in marks if mark is not None]
    return min(known) - reach(askings) if askings and len(known) == len(marks) else None


class Around:
    """Computes contexts on a Spark session where relations have views `relation_<name>`."""

    def __init__(self, spark: SparkSession, rows: StreamRows, guard: Guard | None = None) -> None:
        """`guard`: sets limits, where others would be held up."""
        self._spark = spark
        self._guard = guard
        self._rows = rows
        self._askings: dict[str, tuple[Definition, list[Asking]]] = {}
        self._views = count()

    def reach(self, rule: Running) -> int:
        """How far beyond an event (microseconds) time must go until its context can be settled."""
        return reach(self.of(rule))

    def horizon(self, rule: Running, watermarks: Mapping[str, int | None]) -> int | None:
        """Contexts of events before this time can be settled; None: there are none, or not yet."""
        return horizon(rule, self.of(rule), watermarks)

    def of(self, rule: Running) -> list[Asking]:
        """The context queries of a rule, rewritten."""
        known = self._askings.get(rule.rule)
        if known is None or known[0] is not rule.definition:
            made = [asking(rule, ask, f"pending_{next(self._views)}") for ask in asks(rule.definition)]
            known = self._askings[rule.rule] = rule.definition, made
        return known[1]

    def compute(self, wanted: Sequence[tuple[Running, Sequence[Asked]]]) -> dict[tuple[str, UUID], Found]:
        """All contexts of some events of some rules; none, but a word in the log, for an event whose query fails."""
        together = [wanted] if self._guard is None else self._guard.apart(wanted, lambda one: one[0].rule)
        return {key: found for group in together for key, found in self._compute(group).items()}

    def _compute(self, wanted: Sequence[tuple[Running, Sequence[Asked]]]) -> dict[tuple[str, UUID], Found]:
        try:
            rows = self._limited(wanted)
        except (PySparkException, Py4JJavaError, TookTooLong, pa.ArrowException, LookupError, ValueError) as error:
            slow = isinstance(error, TookTooLong)
            parts = [[one] for one in wanted] if len(wanted) > 1 else [] if slow else _halves(*wanted[0])
            if len(parts) > 1:
                return {key: found for part in parts for key, found in self._compute(part).items()}
            if slow and self._guard is not None:
                self._guard.fail(wanted[0][0], error)
            message = str(error).strip().splitlines()[0]
            _LOG.error("context failed", action="context_failed", rule=wanted[0][0].rule, error=message)
            return {}
        return {
            (rule.rule, event.eid): self.found(rule, rows.get((rule.rule, str(event.eid)), {}))
            for rule, events in wanted
            for event in events
        }

    def found(self, rule: Running, rows: Mapping[str, list[str]]) -> Found:
        """An event's rows as JSON texts, by context; equal rows in whatever order are the same context."""
        parts: dict[bool, dict[str, list[dict[str, Any]]]] = {True: {}, False: {}}
        for asking in self.of(rule):
            # Sorted as text: the same rows are the same context.
            texts = sorted(rows.get(asking.ask.name, ()))[:_ROWS]
            parts[asking.ask.compared][asking.ask.name] = [orjson.loads(text) for text in texts]
        return Found(parts[True], parts[False])

    def _limited(
        self, wanted: Sequence[tuple[Running, Sequence[Asked]]]
    ) -> dict[tuple[str, str], dict[str, list[str]]]:
        if self._guard is None:
            return self._ask(wanted)
        return self._guard.run([rule for rule, _ in wanted], 0, lambda: self._ask(wanted))

    def _ask(self, wanted: Sequence[tuple[Running, Sequence[Asked]]]) -> dict[tuple[str, str], dict[str, list[str]]]:
        branches: list[str] = []
        askings: list[tuple[Asking, Sequence[Asked]]] = []
        for number, (rule, events) in enumerate(wanted):
            frame = pending(self._spark, [Waiting(e, e.ts, e.ts) for e in events], rule.definition.types)
            for asking in self.of(rule):
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

    def _streams(self, askings: Sequence[tuple[Asking, Sequence[Asked]]]) -> None:
        """Views of what the queries look at, and no more."""
        for stream in frozenset().union(*(a.query.used.streams | a.query.used.derived for a, _ in askings)):
            readers = [(a, e) for a, e in askings if stream in a.query.used.streams | a.query.used.derived]
            spans = [span for asking, events in readers for span in asking.spans(events)]
            only = _only(stream, self._rows.columns(stream), readers)
            self._rows.around(stream, spans, only).createOrReplaceTempView(f"around_{stream}")


def _only(
    stream: str, columns: Mapping[str, str], readers: Sequence[tuple[Asking, Sequence[Asked]]]
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


def _branch(number: int, asking: Asking) -> str:
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
