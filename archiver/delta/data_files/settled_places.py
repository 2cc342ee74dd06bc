"""Which rows need the line of their record: those that a source may be read again for."""

from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta.schema import APPEND_COLUMN, LINE_COLUMN, UNIT_COLUMN

_MAX_UNITS = 1_000  # that the metadata of a file name


@dataclass(frozen=True)
class SettledPlaces:
    """Up to which append the rows of a stream are of source units that are read to their end.

    A unit that was interrupted is read again, and so are dead letters that are retried: rows that it
    archived before are recognised by unit and line. `open_units`: such units with rows up to
    `last_append`.
    """

    last_append: int
    open_units: frozenset[int] = frozenset()

    def settles(self, kept_places: "KeptPlaces") -> bool:
        """Whether no row needs its line any more that needed it when a file was written."""
        return (
            kept_places.newest_append <= self.last_append
            and not kept_places.units & self.open_units
        )

    def forget_lines(self, rows: pa.Table) -> pa.Table:
        """Rows of a stream's table, with NULL as the line of those that are settled."""
        appends = pc.fill_null(rows[APPEND_COLUMN], 0)
        is_settled = pc.less_equal(appends, pa.scalar(self.last_append, pa.int64()))
        if self.open_units:
            is_open = pc.is_in(rows[UNIT_COLUMN], pa.array(sorted(self.open_units), pa.int64()))
            is_settled = pc.and_(is_settled, pc.invert(is_open))
        lines = pc.if_else(is_settled, pa.scalar(None, pa.int64()), rows[LINE_COLUMN])
        return rows.set_column(rows.column_names.index(LINE_COLUMN), LINE_COLUMN, lines)


@dataclass(frozen=True)
class KeptPlaces:
    """Rows of a file that kept their lines: the newest of their appends, and their source units."""

    newest_append: int
    units: frozenset[int]

    @classmethod
    def of(cls, rows: pa.Table) -> "KeptPlaces | None":
        """Of rows that are written; None: none keeps its line, or those of too many units."""
        kept_rows = rows.filter(pc.is_valid(rows[LINE_COLUMN]))
        units = pc.unique(kept_rows[UNIT_COLUMN]).to_pylist()
        if not 0 < len(units) <= _MAX_UNITS or None in units:
            return None
        return cls(pc.max(kept_rows[APPEND_COLUMN]).as_py() or 0, frozenset(units))

    def to_text(self) -> str:
        """The form in the metadata of a file."""
        return orjson.dumps([self.newest_append, sorted(self.units)]).decode()

    @classmethod
    def parse(cls, text: bytes) -> "KeptPlaces":
        """Reverse `to_text`."""
        newest_append, units = orjson.loads(text)
        return cls(newest_append, frozenset(units))


NOTHING_SETTLED = SettledPlaces(last_append=-1)
