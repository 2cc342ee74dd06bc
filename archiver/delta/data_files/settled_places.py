"""Which rows need the line of their record: those that a source may be read again for."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.schema import APPEND_COLUMN, LINE_COLUMN, UNIT_COLUMN


@dataclass(frozen=True)
class SettledPlaces:
    """Up to which append the rows of a stream are of source units that are read to their end.

    A unit that was interrupted is read again, and so are dead letters that are retried: rows that it
    archived before are recognised by unit and line. `open_units`: such units with rows up to
    `last_append`.
    """

    last_append: int
    open_units: frozenset[int] = frozenset()

    def forget_lines(self, rows: pa.Table) -> pa.Table:
        """Rows of a stream's table, with NULL as the line of those that are settled."""
        appends = pc.fill_null(rows[APPEND_COLUMN], 0)
        is_settled = pc.less_equal(appends, pa.scalar(self.last_append, pa.int64()))
        if self.open_units:
            is_open = pc.is_in(rows[UNIT_COLUMN], pa.array(sorted(self.open_units), pa.int64()))
            is_settled = pc.and_(is_settled, pc.invert(is_open))
        lines = pc.if_else(is_settled, pa.scalar(None, pa.int64()), rows[LINE_COLUMN])
        return rows.set_column(rows.column_names.index(LINE_COLUMN), LINE_COLUMN, lines)


NOTHING_SETTLED = SettledPlaces(last_append=-1)
