"""What a plain query is written as, and what it is written with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Literal, Protocol

PlainType = Literal["int", "bigint", "double", "string", "boolean", "timestamp", "decimal"]

PLAIN_TYPE_NAMES: frozenset[str] = frozenset(
    ("int", "bigint", "double", "string", "boolean", "timestamp")
)
# Columns by name, lower case.
PlainColumns = Mapping[str, PlainType]
# Size, slide and offset of windows, in microseconds.
Window = tuple[int, int, int]
# The table of panes that a merge reads.
PANES_TABLE = "_panes"


@dataclass(frozen=True)
class TypedExpression:
    """An expression, or a constant by its text."""

    sql: str
    type: PlainType
    literal: str | None = None


@dataclass(frozen=True)
class PlainAggregate:
    """count, count_distinct, sum, avg, min or max `of` an expression (of an average: as double), and its value."""

    kind: str
    operand: str
    expression: TypedExpression


class PaneDialect(Protocol):
    """How windows are merged from the panes in the table `_panes`, which start at `_w` (microseconds)."""

    def assign_windows(self, window: Window) -> str:
        """FROM with each pane in each of its windows, which start at `_start`, from $low to $high (microseconds), the
        first of which must be the start of one.
        """

    def partial_aggregates(self, aggregate: PlainAggregate) -> tuple[str, ...]:
        """What is computed of an aggregate for each pane."""

    def merge_aggregate(self, aggregate: PlainAggregate, parts: Sequence[str]) -> str:
        """What is made of these columns of several panes; of the aggregate's type."""


class SqlDialect(Protocol):
    """What engines say differently."""

    def quote(self, name: str) -> str:
        """A quoted identifier."""

    def assign_windows(self, source: str, alias: str, time: str, window: Window) -> tuple[str, str]:
        """FROM with each row in each of its windows, and what to group by."""

    def window_bound(self, column: str, side: str, window: Window) -> str:
        """The `start` or `end` of a window that stands in a column."""

    @property
    def pane_dialect(self) -> PaneDialect | None:
        """How windows are merged from panes; None: this engine keeps none."""


@dataclass(frozen=True)
class PanedQuery:
    """A query over sliding windows in two steps, so that no row is aggregated twice.

    Windows that overlap are cut into panes, as long as the greatest common divisor of size and slide, so that no
    border of a window lies inside one. `partial` aggregates rows into their panes, `merge` makes of the panes in the
    table `_panes` what the query says of windows that start in [$low, $high] (Li, Maier, Tufte, Papadimos and Tucker:
    No Pane, No Gain. SIGMOD Record 34(1), 2005). Both are texts between which the table of constants belongs, where
    they need it; the column `_w` of the partial is where a pane starts, in microseconds.
    """

    stream: str
    window: Window
    partial: tuple[str, ...]
    merge: tuple[str, ...]

    @property
    def pane_length(self) -> int:
        """Of a pane, in microseconds."""
        size, slide, _ = self.window
        return gcd(size, slide)


@dataclass(frozen=True)
class PlainQuery:
    """A query whose constants are data. Queries with equal `text`, `kinds` and `names` have one shape.

    `text`: parts between which the source, then the table of constants belong; that table has `rule` and a column
    `p<n>` for each constant. Result: `rule`, `ts`, and `c<n>` for the attributes, named `names`, of types `types`.
    """

    text: tuple[str, str, str]
    source: str
    source_is_query: bool  # the source is a query, not a table
    streams: frozenset[str]
    constant_types: tuple[PlainType, ...]
    output_names: tuple[str, ...]
    output_types: tuple[PlainType, ...]
    constants: tuple[Any, ...] = field(compare=False)
    paned_query: PanedQuery | None = None

    def sql(self, constants: str, source: str | None = None) -> str:
        """The query over a table of constants; `source`: where the rows of the source are, if they are made."""
        head, middle, tail = self.text
        return head + (self.source if source is None else source) + middle + constants + tail
