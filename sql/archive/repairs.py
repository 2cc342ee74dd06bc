"""What a repair of the archive reads and changes in the ledger."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class RecordedUnitRow:
    """A source unit as it was read. `size`, `modified`: of its file, as in `FileVersionRow`.

    `refused_lines`: of its dead letters. Where files may be renamed, `place`: the name in the
    identities of its rows, and `names`: of other units with its inode.
    """

    id: int
    stream: str
    unit: str
    clock: datetime | None
    size: int | None
    modified: int | None
    readings: int
    refused_lines: Sequence[int]
    place: str | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LostRowsRecord:
    """Rows of a source unit that are lost. `first_ts`, `last_ts`: event times between which they
    are; None: not known. `ids`: their identities, as far as they are known.
    """

    stream: str
    unit: str
    rows: int
    first_ts: datetime | None
    last_ts: datetime | None
    ids: Sequence[str]


class RepairGateway(Gateway):
    queries = "repairs"

    def list_units(self, ids: Sequence[int]) -> list[RecordedUnitRow]:
        """Source units by ledger id, in order."""
        return self._records(RecordedUnitRow, "list_units", ids=list(ids))

    def adopt_unit(self, stream: str, unit: int, rows: int) -> None:
        """Take a source unit into the ledger of which only the archive knows."""
        self._execute("adopt_unit", id=unit, stream=stream, rows=rows)
        self._value("raise_unit_numbers", id=unit)

    def record_lost(self, lost: LostRowsRecord) -> None:
        """Record rows as lost, for good."""
        self._execute("record_lost", **{**asdict(lost), "ids": list(lost.ids)})

    def list_lost(self) -> list[LostRowsRecord]:
        """All rows that are known to be lost."""
        return self._records(LostRowsRecord, "list_lost")
