"""The rows of a stream's table beside its ledger: what is missing, and what the ledger lacks."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from archiver.delta import StreamTable
from sql.archive import LedgerRow


@dataclass(frozen=True)
class LedgerDifference:
    """`missing`: by ledger id, the number of rows that the table lacks. `unknown`: by id of a source
    unit that the ledger lacks, the number of its rows.
    """

    missing: Mapping[int, int]
    unknown: Mapping[int, int]


def count_rows(table: StreamTable, lost_paths: Collection[str]) -> Counter[int]:
    """The rows of a table by source unit, without those of other programs and of lost files."""
    counts: Counter[int] = Counter()
    for file in table.accounted_files():
        if file.path not in lost_paths:
            units = table.read_file(file.path, ["_unit"])["_unit"].drop_null()
            counts.update(units.to_pylist())
    return counts


def compare_ledger(ledger: Sequence[LedgerRow], counts: Mapping[int, int]) -> LedgerDifference:
    """Where the rows of a table differ from its ledger.

    Rows of units that were compacted count for the unit that they are merged into; a unit that is
    newer than all others was not compacted.
    """
    compacted = next((unit for unit in ledger if not unit.unit), None)
    newest = max((unit.id for unit in ledger), default=0)
    ledger_ids = {unit.id for unit in ledger}
    rows = Counter({unit: counts.get(unit, 0) for unit in ledger_ids})
    unknown: dict[int, int] = {}
    for unit, count in counts.items():
        if unit in ledger_ids:
            continue
        if compacted is not None and unit <= newest:
            rows[compacted.id] += count
        else:
            unknown[unit] = count
    missing: dict[int, int] = {}
    for ledger_row in ledger:
        difference = ledger_row.archived - ledger_row.deleted - rows[ledger_row.id]
        if ledger_row.done and difference > 0:
            missing[ledger_row.id] = difference
    return LedgerDifference(missing, unknown)
