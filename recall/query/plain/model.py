"""What a plain query is written as, and the dialects that it is written in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from recall.query.windows import Window as Window

PlainType = Literal[
    "int", "bigint", "float", "double", "string", "boolean", "timestamp", "decimal", "null"
]

# The types that columns of rules may have; decimals are constants only.
PLAIN_TYPES: frozenset[str] = frozenset(
    ("int", "bigint", "double", "string", "boolean", "timestamp")
)
# The types that columns of recalls and conditions may have. Attributes of events are no floats:
# Spark writes a float to JSON with fewer digits than Python does.
RECALL_TYPES: frozenset[str] = PLAIN_TYPES | {"float"}

# Types whose values are equal in both engines if and only if they are identical.
EXACT_TYPES: frozenset[str] = PLAIN_TYPES - {"double"}

# Where a value is in a JSON object: names of fields and positions (from 0) of elements.
JsonPath = Sequence[str | int]

# The types of columns, by name.
ColumnTypes = Mapping[str, PlainType]


def select_columns(types: Mapping[str, str], allowed_types: Collection[str]) -> ColumnTypes:
    """The columns of allowed types."""
    columns: dict[str, PlainType] = {}
    for name, column_type in types.items():
        if column_type in allowed_types:
            columns[name] = column_type  # type: ignore[assignment]
    return columns


@dataclass(frozen=True)
class TypedExpression:
    """SQL text with its type; or a constant, whose text as written is `literal`."""

    sql: str
    type: PlainType
    literal: str | None = None


@dataclass(frozen=True)
class PlainAggregate:
    """An aggregate: its value, and the SQL of its operand.

    `kind`: count, count_distinct, sum, avg, min or max. The operand of avg is a double.
    """

    kind: str
    operand: str
    expression: TypedExpression


class PaneDialect(Protocol):
    """How an engine merges panes, from the table `_panes`, into windows.

    A pane starts at its `_w`, in microseconds.
    """

    def assign_windows(self, window: Window) -> str:
        """FROM with each pane in each of its windows.

        `_start` is what `SqlDialect.assign_windows` groups by. Windows end their size after times
        from _low to _high of the table `_window_bounds`, in microseconds; _low must be a multiple
        of the window's `start_period`, but for its offset.
        """

    def partial_aggregates(self, aggregate: PlainAggregate) -> tuple[str, ...]:
        """What is computed of an aggregate for each pane."""

    def merge_aggregate(self, aggregate: PlainAggregate, part_columns: Sequence[str]) -> str:
        """The aggregate over several panes, from columns of its partial aggregates."""


class SqlDialect(Protocol):
    """What engines write differently."""

    def quote(self, name: str) -> str:
        """A quoted identifier."""

    def string(self, value: str) -> str:
        """A string constant."""

    def json_text(self, json: str, keys: JsonPath) -> str:
        """The value of a field of a JSON object as text: fields by name, elements by position."""

    def assign_windows(self, source: str, alias: str, time: str, window: Window) -> tuple[str, str]:
        """FROM with each row in each of its windows, and what to group by."""

    def window_bound(self, column: str, side: str, window: Window) -> str:
        """The `start` or `end` of a window that is in a column, as a timestamp."""

    @property
    def pane_dialect(self) -> PaneDialect | None:
        """How windows are merged from panes; None if the engine keeps no panes."""


@dataclass(frozen=True)
class PanedQuery:
    """A query over sliding windows in two steps, so that no row is aggregated twice.

    Overlapping windows are cut into panes (see `Window.pane_length`), so that no pane crosses a
    window's border. `partial` aggregates rows into panes, with the start
    of the pane in microseconds as `_w`; `merge` computes windows that start within `_window_bounds`
    from the panes in the table `_panes` (Li, Maier, Tufte, Papadimos and Tucker: No Pane, No Gain.
    SIGMOD Record 34(1), 2005). Where either needs the table of constants, it belongs between the
    two parts of the text; otherwise the text is one part.
    """

    stream: str
    window: Window
    partial: tuple[str, ...]
    merge: tuple[str, ...]

    @property
    def pane_length(self) -> int:
        """The length of a pane in microseconds."""
        return self.window.pane_length


@dataclass(frozen=True)
class PlainQuery:
    """A query whose constants are data. Queries that differ only in `constants` are equal.

    `text`: three parts. Between the first two belongs the source, between the last two the table of
    constants, which has the columns `rule` and `p<n>` for each constant. The result has the columns
    `rule`, `ts` and `c<n>` for the attributes `output_names`. Relations are part of the text, under
    their physical names. `is_filter`: each row of the result is of one row of one stream alone.
    """

    text: tuple[str, str, str]
    source: str
    source_is_query: bool  # otherwise a table
    streams: frozenset[str]
    constant_types: tuple[PlainType, ...]
    output_names: tuple[str, ...]
    output_types: tuple[PlainType, ...]
    constants: tuple[Any, ...] = field(compare=False)
    paned_query: PanedQuery | None = None
    has_relations: bool = False
    is_filter: bool = False

    def sql(self, constants: str, source: str | None = None, carried: str | None = None) -> str:
        """The query over a table of constants.

        `source`: a table with the rows of the source, if these are materialised. `carried`: a column
        of its own of the source of a filter that the result has, too.
        """
        before_source, before_constants, after_constants = self.text
        if carried is not None:
            assert self.is_filter
            before_source = before_source.replace("SELECT ", f"SELECT {carried}, ", 1)
        if source is None:
            source = self.source
        return before_source + source + before_constants + constants + after_constants
