"""What a query about an event is taken apart into."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

AggregateKind = Literal[
    "count",
    "sum",
    "avg",
    "exact_avg",
    "min",
    "max",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "min_by",
    "max_by",
    "bit_and",
    "bit_or",
    "bit_xor",
    "collect_list",
    "collect_set",
    "count_distinct",
    "sum_distinct",
    "avg_distinct",
    "percentile",
    "approx_count_distinct",
    "approx_percentile",
]

# The table that `merge` reads.
MERGED_TABLE = "_merged"
VARIANCE_KINDS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
# Partial answers hold every (other) value; a sketch of them.
LIST_KINDS = (
    "collect_list",
    "collect_set",
    "count_distinct",
    "sum_distinct",
    "avg_distinct",
    "percentile",
)
SKETCH_KINDS = ("approx_count_distinct", "approx_percentile")


@dataclass(frozen=True)
class SplitAggregate:
    """One aggregate: `value` names its column among what is merged, `parts` those of the partial answers.

    `type`: of the value, in Spark's words; None: not known. `at`: the shares that a percentile is asked for, of which
    there is one number or, where `several`, an array. `error`: of a sketch, in people's words.
    """

    kind: AggregateKind
    value_column: str
    part_columns: tuple[str, ...]
    text: str
    type: str | None = None
    quantiles: tuple[float, ...] = ()
    returns_array: bool = False
    error_bound: str | None = None


@dataclass(frozen=True)
class Split:
    """A query about an event, taken apart.

    `partial` runs on a piece of history, `merge` on the table `_merged`: `groups` and the values of `aggregates`, or,
    where `limit` rows are asked for, the rows of the partial answers. `typing` has the groups and values as columns,
    to find out their types; `types` are those of groups, as far as known.
    """

    partial: exp.Select
    merge: exp.Select
    type_probe: exp.Select | None = None
    groups: tuple[str, ...] = ()
    aggregates: tuple[SplitAggregate, ...] = ()
    limit: int | None = None

    @property
    def selects_rows(self) -> bool:
        """Plain rows are asked for."""
        return self.limit is not None

    @property
    def is_global_aggregate(self) -> bool:
        """One row whatever history holds: aggregates without GROUP BY."""
        return bool(self.aggregates) and not self.groups

    @property
    def has_sketches(self) -> bool:
        """Some values are read off sketches."""
        return any(aggregate.kind in SKETCH_KINDS for aggregate in self.aggregates)

    @property
    def direct_columns(self) -> Mapping[str, str] | None:
        """Where each output is just a merged column, in any order of rows: that column by output. Else None."""
        parts = {part for part, value in self.merge.args.items() if value}
        if self.selects_rows or parts - {"expressions", "from_"}:
            return None
        outputs = {p.alias_or_name: p.unalias() for p in self.merge.expressions}
        columns = {
            n: p.name for n, p in outputs.items() if isinstance(p, exp.Column) and not p.table
        }
        return columns if len(columns) == len(self.merge.expressions) else None
