"""Which summary answers a recall, or why none can. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlglot import exp

from recall.engines import Template, to_portable
from recall.errors import NotSummarised, SparkRequired
from recall.query import sql_names
from recall.query.split import VARIANCE_KINDS, AggregateKind, SplitAggregate
from recall.requests import SqlQuestion
from recall.summaries.model import (
    KeptAggregate,
    KeptKind,
    Lookup,
    PartColumn,
    SummaryShape,
    SummaryUse,
)

_MEASURE_KINDS: Mapping[AggregateKind, KeptKind] = {
    "count": "sum",
    "sum": "sum",
    "min": "min",
    "max": "max",
}
# Columns of these types are compared with attributes and constants of the same group.
_LOOKUP_TYPES = ({"string"}, {"int", "bigint"}, {"boolean"})
_NUMBERS = ("int", "bigint", "float", "double")


def find_use(template: Template, columns: Mapping[str, str]) -> SummaryUse:
    """How a recall is answered by a summary. Raises `NotSummarised`.

    `columns`: those that queries may name of the only stream that it reads, with their types.
    """
    if template.question.summary == "off":
        raise NotSummarised("summary is off")
    split = template.split
    if split.whole is not None:
        raise NotSummarised(f"it does not split into partial answers of chunks: {split.whole}")
    if split.selects_rows:
        raise NotSummarised("it selects rows, no aggregates")
    try:
        to_portable(template, columns)
    except SparkRequired as reason:
        raise NotSummarised(str(reason)) from reason
    (stream,) = template.partial.inputs.streams
    return _UseFinder(template, stream, columns).find()


def declared_shape(
    stream: str, time: str, columns: Mapping[str, str], key: Sequence[str], measured: Sequence[str]
) -> SummaryShape:
    """The summary of some columns by a key: everything that merges. Raises `NotSummarised`."""
    names = [_column_text(name) for name in key]
    aggregates = ["COUNT(*)"]
    for name in measured:
        text = _column_text(name)
        aggregates += [f"COUNT({text})", f"MIN({text})", f"MAX({text})"]
        if columns[name] in _NUMBERS:
            aggregates += [f"SUM({text})", f"AVG({text})", f"STDDEV({text})"]
    groups = f" GROUP BY {', '.join(names)}" if names else ""
    question = SqlQuestion(
        range=None,
        every=1.0,
        order="newest",
        sql=f"SELECT {', '.join([*names, *aggregates])} FROM `{stream}`{groups}",
        streams={stream: time},
        relations=(),
        derived={},
        attributes={},
        own={},
        columns={},
    )
    return find_use(Template(question), columns).shape


class _UseFinder:
    """Reads one split query."""

    def __init__(self, template: Template, stream: str, columns: Mapping[str, str]) -> None:
        self._template = template
        self._stream = stream
        self._columns = columns
        self._names = {name.lower(): name for name in columns}
        self._attributes = {name.lower(): name for name in template.question.attributes}
        self._lookups: list[Lookup] = []
        self._conditions: set[str] = set()
        self._constants: dict[str, Lookup] = {}
        self._measures: set[KeptAggregate] = set()
        self._parts: list[PartColumn] = []

    def find(self) -> SummaryUse:
        partial = self._template.split.partial
        where = partial.args.get("where")
        for condition in () if where is None else _conjuncts(where.this):
            self._add_condition(condition)
        outputs = {output.alias: output.unalias() for output in partial.expressions}
        groups: dict[str, str] = {}
        for column in self._template.split.groups:
            groups[column] = self._text(outputs[column], "GROUP BY")
        for aggregate in self._template.split.aggregates:
            self._add_aggregate(aggregate, outputs)
        dimensions = {*groups.values(), *(lookup.dimension for lookup in self._lookups)}
        dimensions.update(part.distinct for part in self._parts if part.distinct)
        shape = SummaryShape(
            self._stream,
            self._template.question.streams[self._stream],
            self._columns,
            tuple(sorted(dimensions)),
            tuple(sorted(self._conditions)),
            frozenset(self._measures),
        )
        return SummaryUse(shape, tuple(self._lookups), self._constants, groups, tuple(self._parts))

    def _add_condition(self, condition: exp.Expr) -> None:
        lookup = self._read_lookup(condition)
        if lookup is not None and lookup.attributes:
            self._lookups.append(lookup)
            return
        text = self._text(condition, "WHERE")
        self._conditions.add(text)
        if lookup is not None:
            self._constants[text] = lookup

    def _read_lookup(self, condition: exp.Expr) -> Lookup | None:
        """A column of the stream equals one of some attributes of the event and constants."""
        if isinstance(condition, exp.In) and condition.expressions:
            return self._read_values(condition.this, condition.expressions)
        if isinstance(condition, exp.EQ):
            left, right = condition.left, condition.right
            return self._read_values(left, [right]) or self._read_values(right, [left])
        return None

    def _read_values(self, column: exp.Expr, values: Sequence[exp.Expr]) -> Lookup | None:
        if not isinstance(column, exp.Column) or _is_of_event(column):
            return None
        column_type = self._columns[self._names[column.name.lower()]]
        attributes: list[str] = []
        constants: list[Any] = []
        for value in values:
            value_type = ""
            if isinstance(value, exp.Column) and _is_of_event(value):
                attribute = self._attributes.get(value.name.lower())
                if attribute is not None:
                    value_type = self._template.question.attributes[attribute]
                    attributes.append(attribute)
            elif isinstance(value, exp.Literal):
                constant = _read_constant(value)
                if constant is not None:
                    value_type = "string" if value.is_string else "bigint"
                    constants.append(constant)
            if not _are_comparable(column_type, value_type):
                return None
        return Lookup(self._text(column, "WHERE"), tuple(attributes), tuple(constants))

    def _add_aggregate(self, aggregate: SplitAggregate, outputs: Mapping[str, exp.Expr]) -> None:
        columns = aggregate.part_columns
        parts = [outputs[column] for column in columns]
        kind = _MEASURE_KINDS.get(aggregate.kind)
        if kind is not None:
            self._parts.append(PartColumn(columns[0], self._add_measure(parts[0], kind)))
        elif aggregate.kind == "avg":
            for column, part in zip(columns, parts, strict=True):
                self._parts.append(PartColumn(column, self._add_measure(part, "sum")))
        elif aggregate.kind in VARIANCE_KINDS:
            count = self._add_measure(parts[0], "sum")
            total = self._add_measure(parts[1].transform(_sum_of_average), "sum")
            squares = self._add_measure(parts[2], "squares", count, total)
            self._parts.append(PartColumn(columns[0], count))
            self._parts.append(PartColumn(columns[1], total=total, count=count))
            self._parts.append(PartColumn(columns[2], squares))
        elif aggregate.kind == "count_distinct" and isinstance(parts[0], exp.ArrayUniqueAgg):
            # Each value is a group: exact, and no larger than the values are many.
            distinct = self._text(parts[0].this, "count(DISTINCT …)")
            self._parts.append(PartColumn(columns[0], distinct=distinct))
        else:
            raise NotSummarised(f"{aggregate.text} is not kept in summaries")

    def _add_measure(self, node: exp.Expr, kind: KeptKind, count: str = "", total: str = "") -> str:
        text = self._text(node, "an aggregate")
        self._measures.add(KeptAggregate(text, kind, count, total))
        return text

    def _text(self, node: exp.Expr, clause: str) -> str:
        """An expression over columns of the stream, equal for equal ones."""
        names = self._names

        def normalise(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column):
                if _is_of_event(part):
                    raise NotSummarised(
                        f"{clause} names event.{part.name} other than as: column = event.{part.name}, or in IN"
                    )
                name = names.get(part.name.lower(), part.name)
                return exp.column(name, quoted=True)
            return part

        normalised = node.copy().transform(normalise)
        return normalised.transform(self._drop_cast).sql(dialect="spark", comments=False)

    def _drop_cast(self, node: exp.Expr) -> exp.Expr:
        """A double as a double is itself: sums for an average and for `sum` are one measure."""
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
            is_double = self._columns.get(node.this.name) == "double"
            if is_double and node.to.is_type(exp.DataType.Type.DOUBLE):
                return node.this
        return node


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _is_of_event(column: exp.Column) -> bool:
    return column.table.lower() == sql_names.EVENT


def _sum_of_average(node: exp.Expr) -> exp.Expr:
    return exp.Sum(this=node.this) if isinstance(node, exp.Avg) else node


def _read_constant(literal: exp.Literal) -> Any:
    if literal.is_string:
        return literal.name
    with suppress(ValueError):
        return int(literal.name)
    return None


def _are_comparable(first: str, second: str) -> bool:
    return any(first in types and second in types for types in _LOOKUP_TYPES)


def _column_text(name: str) -> str:
    return f"`{name}`"
