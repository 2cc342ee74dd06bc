"""What a summary holds, and how the partial answers of a recall follow from it. No I/O."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import orjson

KeptKind = Literal["sum", "min", "max", "squares"]

# Changes when nodes of earlier versions cannot be read any more.
_FORMAT = 1


@dataclass(frozen=True, order=True)
class KeptAggregate:
    """An aggregate over the rows of a group, as Spark's SQL.

    `kind`: how those of several chunks become one. Of `squares`, the sum of squared differences
    from the mean, `count` and `total` are the measures that the mean follows from.
    """

    text: str
    kind: KeptKind
    count: str = ""
    total: str = ""


@dataclass(frozen=True)
class SummaryShape:
    """A summary: the measures of the rows of a stream that meet all conditions, by dimensions.

    `dimensions`, `conditions`: expressions of Spark's SQL over the columns of the stream, sorted.
    `columns`: of the stream, with their types.
    """

    stream: str
    time: str
    columns: Mapping[str, str] = field(hash=False)
    dimensions: tuple[str, ...]
    conditions: tuple[str, ...]
    measures: frozenset[KeptAggregate]

    @cached_property
    def key(self) -> str:
        """The name of its table: equal for equal summaries."""
        return hashlib.sha256(orjson.dumps([_FORMAT, self.to_json()])).hexdigest()[:16]

    @cached_property
    def ordered_measures(self) -> tuple[KeptAggregate, ...]:
        """In the order of their columns."""
        return tuple(sorted(self.measures))

    @cached_property
    def measure_columns(self) -> Mapping[str, str]:
        """The column of each measure, by its text."""
        return {measure.text: f"m{i}" for i, measure in enumerate(self.ordered_measures)}

    def dimension_column(self, dimension: str) -> str:
        """The column of a dimension."""
        return f"d{self.dimensions.index(dimension)}"

    def to_json(self) -> dict[str, Any]:
        """What readers of its table may want to know."""
        return {
            "stream": self.stream,
            "columns": dict(sorted(self.columns.items())),
            "dimensions": self.dimensions,
            "conditions": self.conditions,
            "measures": [measure.text for measure in self.ordered_measures],
        }

    def without_measures(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """What summaries have in common that can be one."""
        return self.stream, self.dimensions, self.conditions


@dataclass(frozen=True)
class Lookup:
    """A dimension equals one of some attributes of the event and constants."""

    dimension: str
    attributes: tuple[str, ...] = ()
    constants: tuple[Any, ...] = ()

    def values(self, attributes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values for an event, each once; NULL equals nothing."""
        values = [*map(attributes.get, self.attributes), *self.constants]
        return tuple(dict.fromkeys(value for value in values if value is not None))


@dataclass(frozen=True)
class PartColumn:
    """A column of partial answers: a measure, the mean that follows from `total` and `count`, or the
    set of values of the dimension `distinct`.
    """

    column: str
    measure: str = ""
    total: str = ""
    count: str = ""
    distinct: str = ""


@dataclass(frozen=True)
class SummaryUse:
    """How the partial answers of a recall follow from a summary.

    `shape`: the smallest that suffices. `constants`: the conditions that compare a column with a
    constant, each as a lookup, for a summary that has the column as a dimension. `groups`: the
    dimension of each column of groups.
    """

    shape: SummaryShape
    lookups: tuple[Lookup, ...]
    constants: Mapping[str, Lookup]
    groups: Mapping[str, str]
    parts: tuple[PartColumn, ...]

    def find_lookups(self, shape: SummaryShape) -> tuple[Lookup, ...] | None:
        """What to look up in a summary of a shape; None: it does not suffice.

        Each condition of the recall is one of the summary, or compares a dimension: then it holds
        for all rows of a group or for none.
        """
        needed_shape = self.shape
        if (shape.stream, shape.columns) != (needed_shape.stream, needed_shape.columns):
            return None
        if not needed_shape.measures <= shape.measures or not set(shape.conditions) <= set(
            needed_shape.conditions
        ):
            return None
        lookups = list(self.lookups)
        for condition in needed_shape.conditions:
            if condition in shape.conditions:
                continue
            if condition not in self.constants:
                return None
            lookups.append(self.constants[condition])
        needed = {*needed_shape.dimensions, *(lookup.dimension for lookup in lookups)}
        return tuple(lookups) if needed <= set(shape.dimensions) else None


def plan_shapes(shapes: Mapping[SummaryShape, bool]) -> dict[SummaryShape, bool]:
    """The summaries to keep for those that are asked for: equal but for measures, they are one.

    With each, whether to keep it whatever it costs.
    """
    merged: dict[tuple[Any, ...], tuple[SummaryShape, bool]] = {}
    for shape, is_required in shapes.items():
        name = shape.without_measures()
        if name in merged:
            other, is_other_required = merged[name]
            shape = SummaryShape(
                shape.stream,
                shape.time,
                shape.columns,
                shape.dimensions,
                shape.conditions,
                shape.measures | other.measures,
            )
            is_required = is_required or is_other_required
        merged[name] = shape, is_required
    return dict(merged.values())
