"""What a query about an event is taken apart into."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from recall.query.parts import clauses_of

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

VARIANCE_KINDS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
# Their partial answers hold every (distinct) value.
LIST_KINDS = (
    "collect_list",
    "collect_set",
    "count_distinct",
    "sum_distinct",
    "avg_distinct",
    "percentile",
)
# Values of a piece of history that a partial answer of `top(column, k)` lists.
LIST_LENGTH = 1_000
# Their partial answers hold a sketch of the values.
SKETCH_KINDS = ("approx_count_distinct", "approx_percentile")


@dataclass(frozen=True)
class SplitAggregate:
    """One aggregate of a split query.

    `value_column` is its column among the merged values, `part_columns` are its columns in partial
    answers. `text`: the aggregate as written. `type`: of its value, as Spark names it; None if not
    known. `quantiles`: of a percentile, between 0 and 1, one or, if `returns_array`, several.
    `error_bound`: of a sketch, as text for users.
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

    `partial` runs over a piece of history. `merge` runs over the table `_merged`, which has the
    columns `groups` and the values of `aggregates`; or, for a query of plain rows with a `limit`,
    the rows of the partial answers. `newest_first`: these are ordered by time, newest first.
    `type_probe` selects groups and values over no rows, to find their types.

    `top`: partial answers are lists of the most frequent values, of which `merge` reads those that may
    be among the first `top`; see `recall.operators.frequent`.

    `whole`: why the query cannot be taken apart; None: it can. Otherwise `partial` is the query
    itself, its rows numbered by `_row` if they are ordered: its answer over a longer piece of
    history takes the place of that over a shorter one.
    """

    partial: exp.Select
    merge: exp.Select
    type_probe: exp.Select | None = None
    groups: tuple[str, ...] = ()
    aggregates: tuple[SplitAggregate, ...] = ()
    limit: int | None = None
    newest_first: bool = False
    whole: str | None = None
    top: int | None = None

    @property
    def selects_rows(self) -> bool:
        """Partial answers have rows as the query selects them, no groups and aggregates."""
        return self.limit is not None or self.whole is not None

    @property
    def is_global_aggregate(self) -> bool:
        """The answer is one row, whatever history holds: aggregates without GROUP BY."""
        return bool(self.aggregates) and not self.groups

    @property
    def has_sketches(self) -> bool:
        """Some values are computed from sketches."""
        return any(aggregate.kind in SKETCH_KINDS for aggregate in self.aggregates)

    @property
    def direct_columns(self) -> Mapping[str, str] | None:
        """The merged column of each output, by name, if `merge` does nothing but rename columns.

        None if outputs are computed, filtered or ordered.
        """
        clauses = clauses_of(self.merge)
        if self.selects_rows or clauses - {"expressions", "from_"}:
            return None
        columns = {}
        for output in self.merge.expressions:
            value = output.unalias()
            if not isinstance(value, exp.Column) or value.table:
                return None
            columns[output.alias_or_name] = value.name
        if len(columns) < len(self.merge.expressions):
            return None  # two outputs of one name
        return columns
