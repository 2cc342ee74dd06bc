"""History read in this process, by DuckDB over the files of the archive: milliseconds where a Spark job needs tenths.

It serves only questions in a part of SQL whose answers `tests/contract` shows to be those of Spark: one stream,
columns, constants and the event's attributes of plain types, comparisons, AND, OR, NOT, + - *, and the aggregates that
can be split. Where it fails, Spark is asked.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from archiver.reader import Reader
from recall.engines import merging
from recall.engines.answers import Held, Rows, merged_values, plain_rows, together
from recall.engines.template import Own, Template, by_event, cut, wanted_only
from recall.pending import PLAIN, Waiting, plain_pending
from recall.query.lift import EID
from recall.query.parts import EVENT
from recall.query.split import VARIANCES
from recall.request import Asked, Piece

Kind = Literal["number", "string", "boolean", "timestamp", "null"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int", "bigint", "float", "double"), "number"),
    "string": "string",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_AGGREGATES = (exp.Sum, exp.Avg, exp.VariancePop, exp.Variance, exp.StddevPop, exp.Stddev, exp.StddevSamp)


class NotServed(Exception):
    """This engine cannot answer; Spark can."""


class LocalEngine:
    """DuckDB, on one thread, over the newest version of the archive's tables."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._served: dict[str, str] = {}
        self._duck = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": "1GB"})
        self._duck.execute("SET TimeZone = 'UTC'")

    def partial(self, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own) -> dict[str, pa.Table]:
        """See `recall.engines.spark.SparkEngine.partial`. Raises `NotServed`."""
        sql = self._sql(template)
        (stream,) = template.partial.used.streams
        self._reader.refresh()
        lows = [low for _, (_, low, _) in shares]
        low = None if None in lows else min(one for one in lows if one is not None)
        pinned = self._reader.pin(stream, low, max(high for _, (_, _, high) in shares))
        if not pinned.rows and not pinned.files:
            return {}
        waiting = [Waiting(asked, low, high) for asked, (_, low, high) in shares]
        schema = self._reader.schema(stream)
        columns = ", ".join(f'"{name}"' for name in schema.columns)
        only = wanted_only(template, stream, schema.columns, [asked for asked, _ in shares])
        where = "".join(f' AND "{name}" IN ({_texts(values)})' for name, values in only.items() if values)
        sources = []
        if pinned.files:
            sources.append(f"read_parquet([{_texts(pinned.files)}], union_by_name = true, hive_partitioning = false)")
        if pinned.rows:
            sources.append("_at_hand")
            self._duck.register("_at_hand", pa.concat_tables(pinned.rows))
        parts = " UNION ALL ".join(f"SELECT {columns} FROM {source} WHERE true{where}" for source in sources)
        try:
            self._duck.register("_pending", plain_pending(waiting, template.question.attributes))
            self._duck.execute(f'CREATE OR REPLACE TEMP VIEW "_in_{stream}" AS {parts}')
            found = self._duck.sql(f"{sql} LIMIT {cut(len(shares))}").to_arrow_table()
            return by_event(template, _as_spark(template, found), len(shares))
        except duckdb.InterruptException:
            raise
        except (duckdb.Error, pa.ArrowException) as error:
            raise NotServed(str(error)) from error

    def cancel(self) -> None:
        """End the query at hand."""
        self._duck.interrupt()

    def answer(self, template: Template, held: Held) -> dict[str, Rows]:
        """What each event's merged partial answers say, as rows in their order. Raises `NotServed`."""
        known = merged_values(template, held)
        if not known:
            return {}
        plain = template.split.plain
        if plain is not None and not template.split.sketched:
            return plain_rows(known, plain)
        found = None
        if merging.served(template):
            found = merging.merge(self._duck, template, [asked for asked, _ in held], together(known))
        if found is None:
            raise NotServed("the merge")
        return found

    def _sql(self, template: Template) -> str:
        question = repr(template.question)  # types of attributes count too
        if question not in self._served:
            self._served[question] = served(template, self._columns(template))
        return self._served[question]

    def _columns(self, template: Template) -> Mapping[str, str]:
        streams = template.partial.used.streams
        return self._reader.schema(next(iter(streams))).columns if len(streams) == 1 else {}


def served(template: Template, columns: Mapping[str, str]) -> str:
    """The partial query in DuckDB's words; `columns` of its stream. Raises `NotServed` for all it is not sure of."""
    question, used, chosen = template.question, template.partial.used, template.split
    if len(used.streams) != 1 or used.derived or used.relations or used.own or chosen.rows:
        raise NotServed("one stream and aggregates only")
    if any(kind not in PLAIN for kind in question.attributes.values()):
        raise NotServed("attributes of plain types only")
    partial = chosen.partial
    tables = [partial.args["from_"].this, *(join.this for join in partial.args.get("joins") or ())]
    if len(tables) != 1:
        raise NotServed("no joins")
    types = {name.lower(): kind for name, kind in columns.items()}
    events = {name.lower(): kind for name, kind in question.attributes.items()} | {"ts": "timestamp", "eid": "string"}
    typing = _Typing(types, events)
    for output in partial.expressions:
        _check_output(output.unalias(), typing)
    where = partial.args.get("where")
    if where is not None and typing.kind(where.this) not in ("boolean", "null"):
        raise NotServed("a condition")
    for key in partial.args["group"].expressions:
        if typing.type(key) in ("float", "double"):
            raise NotServed("no groups by fractions")
    return sqlglot.transpile(template.partial.sql, read="spark", write="duckdb")[0]


def _check_output(node: exp.Expr, typing: "_Typing") -> None:
    """An aggregate over something simple, products of such, or a column that is grouped by."""
    if isinstance(node, exp.Filter):
        if typing.kind(node.expression.this) not in ("boolean", "null"):
            raise NotServed("a filter")
        node = node.this
    if isinstance(node, exp.Mul):
        _check_output(node.left, typing)
        _check_output(node.right, typing)
    elif isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            typing.kind(node.this)
    elif isinstance(node, _AGGREGATES):
        inner = node.this.this if isinstance(node.this, exp.Cast) else node.this
        if typing.kind(inner) != "number":
            raise NotServed("numbers only")
    elif isinstance(node, exp.Min | exp.Max):
        typing.kind(node.this)
    else:
        typing.kind(node)


class _Typing:
    """The kinds of expressions; what is not listed here is left to Spark."""

    def __init__(self, columns: Mapping[str, str], events: Mapping[str, str]) -> None:
        self._columns = columns
        self._events = events

    def type(self, node: exp.Expr) -> str | None:
        """The type of a column."""
        if not isinstance(node, exp.Column) or node.db:
            return None
        return (self._events if node.table.lower() == EVENT else self._columns).get(node.name.lower())

    def kind(self, node: exp.Expr) -> Kind:
        """Raises `NotServed` for what is not known to be the same everywhere."""
        if isinstance(node, exp.Paren):
            return self.kind(node.this)
        if isinstance(node, exp.Column):
            kind = _KINDS.get(self.type(node) or "")
            if kind is None:
                raise NotServed(f"column {node.name}")
            return kind
        if isinstance(node, exp.Literal):
            return "string" if node.is_string else "number"
        if isinstance(node, exp.Boolean):
            return "boolean"
        if isinstance(node, exp.Null):
            return "null"
        if isinstance(node, _COMPARISONS):
            return self._same(node.left, node.right, "boolean")
        if isinstance(node, exp.And | exp.Or):
            for side in (node.left, node.right):
                if self.kind(side) != "boolean":
                    raise NotServed("a condition")
            return "boolean"
        if isinstance(node, exp.Not):
            return self._only(node.this, "boolean")
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            self.kind(node.this)
            return "boolean"
        if isinstance(node, exp.Add | exp.Sub | exp.Mul):
            if any(isinstance(side, exp.Literal) and not side.is_int for side in (node.left, node.right)):
                raise NotServed("no arithmetic with decimals")
            self._only(node.left, "number")
            return self._only(node.right, "number")
        if isinstance(node, exp.Neg):
            return self._only(node.this, "number")
        raise NotServed(node.key)

    def _only(self, node: exp.Expr, kind: Kind) -> Kind:
        if self.kind(node) != kind:
            raise NotServed(f"{kind}s only")
        return kind

    def _same(self, left: exp.Expr, right: exp.Expr, result: Kind) -> Kind:
        if self.kind(left) != self.kind(right):
            raise NotServed("comparisons of one kind only")
        return result


def _as_spark(template: Template, found: pa.Table) -> pa.Table:
    """The types that Spark gives."""
    kinds = {part: aggregate.kind for aggregate in template.split.aggregates for part in aggregate.parts}
    fields = []
    for field in found.schema:
        kind = field.type
        if pa.types.is_decimal(kind):
            kind = pa.int64()
        elif pa.types.is_floating(kind) and kinds.get(field.name) in ("sum", "avg", *VARIANCES):
            kind = pa.float64()
        elif pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", tz="UTC")
        fields.append(pa.field(field.name, pa.string() if field.name == EID else kind))
    return found.cast(pa.schema(fields))


def _texts(values: Sequence[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
