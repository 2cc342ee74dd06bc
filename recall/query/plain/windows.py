"""Rows of plain queries grouped by windows, at once or in two steps over panes."""

from collections.abc import Sequence
from dataclasses import dataclass

from recall.query.plain.model import (
    PaneDialect,
    PanedQuery,
    PlainAggregate,
    SqlDialect,
    Window,
)


@dataclass(frozen=True)
class WindowGroups:
    """Rows of a source grouped by windows and keys.

    The groups have columns `_w` for the start of the window, `k<n>` for `keys` and `a<n>` for
    `aggregates`. `alias` and `time`: of the source, quoted. `joins`: of relations, after the source
    and the table of constants. `constant_columns`: the columns of the table of constants that each
    group carries, if constants are needed before grouping.
    """

    dialect: SqlDialect
    alias: str
    time: str
    window: Window
    keys: Sequence[str]
    aggregates: Sequence[PlainAggregate]
    joins: str
    where: str
    constant_columns: Sequence[str]

    def select_windows(self) -> tuple[str, str, str]:
        """SELECT of windows over rows.

        The text before the source, up to the table of constants, and after it.
        """
        values = []
        for number, aggregate in enumerate(self.aggregates):
            values.append(f"{aggregate.expression.sql} AS a{number}")
        return self._select_rows(self.window, values)

    def select_panes(self, panes: PaneDialect) -> tuple[str, str, str]:
        """SELECT of panes over rows, with columns `a<n>_<m>` for partial aggregates."""
        values = []
        for number, parts in enumerate(map(panes.partial_aggregates, self.aggregates)):
            for part_number, part in enumerate(parts):
                values.append(f"{part} AS a{number}_{part_number}")
        pane_length = self.window.pane_length
        return self._select_rows(Window(pane_length, pane_length, self.window.offset), values)

    def merge_panes(self, panes: PaneDialect) -> str:
        """SELECT of windows over the table of panes."""
        group_columns = list(self.constant_columns)
        for number in range(len(self.keys)):
            group_columns.append(f"k{number}")
        values = []
        for number, aggregate in enumerate(self.aggregates):
            part_count = len(panes.partial_aggregates(aggregate))
            part_columns = [f"a{number}_{part_number}" for part_number in range(part_count)]
            values.append(f"{panes.merge_aggregate(aggregate, part_columns)} AS a{number}")
        select_list = ", ".join(["_start AS _w", *group_columns, *values])
        from_ = panes.assign_windows(self.window)
        return f"SELECT {select_list} FROM {from_} GROUP BY {', '.join(['_start', *group_columns])}"

    def _select_rows(self, window: Window, values: Sequence[str]) -> tuple[str, str, str]:
        from_, window_key = self.dialect.assign_windows(
            "\0", self.alias, f"{self.alias}.{self.time}", window
        )
        before_source, after_source = from_.split("\0")
        constants = [f"_c.{column}" for column in self.constant_columns]
        keys = [f"{key} AS k{number}" for number, key in enumerate(self.keys)]
        select_list = ", ".join([*constants, f"{window_key} AS _w", *keys, *values])
        group_by = ", ".join([*constants, window_key, *self.keys])
        head = f"SELECT {select_list} FROM {before_source}"
        tail = f"{self.joins}{self.where} GROUP BY {group_by}"
        if not constants:
            return head, after_source, tail
        return head, f"{after_source} CROSS JOIN ", f" AS _c{tail}"


def write_panes(
    groups: WindowGroups, stream: str, source: str, suffix: tuple[str, str], parameterized: bool
) -> PanedQuery | None:
    """Sliding windows over rows in two steps; None if windows do not overlap.

    `source`: the SQL of the rows. `suffix`: the text after the groups, up to the table of constants
    and after it.
    """
    panes = groups.dialect.pane_dialect
    if panes is None or not groups.window.overlaps:
        return None
    before_source, before_constants, after_constants = groups.select_panes(panes)
    before_constants = f"{before_source}{source}{before_constants}"
    if groups.constant_columns:
        partial: tuple[str, ...] = (before_constants, after_constants)
    else:
        partial = (before_constants + after_constants,)
    merge_text = f" FROM ({groups.merge_panes(panes)}) AS _g{suffix[0]}"
    if parameterized and not groups.constant_columns:
        merge: tuple[str, ...] = (merge_text, suffix[1])
    else:
        merge = (merge_text + suffix[1],)
    return PanedQuery(stream, groups.window, partial, merge)
