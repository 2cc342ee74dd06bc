"""Rows that repeat erased ones: they count as duplicates, whatever their content is."""

import numpy as np

from archiver.delta import ErasedRows
from archiver.ingest.classify import ArchivedMatches, Array


def record_erased(matches: ArchivedMatches, erased: ErasedRows, ts: Array, readings: Array) -> None:
    """Record which rows repeat erased rows, by their identity or by that of an earlier declaration.

    `ts`: event times of the rows; `readings`: see `archiver.ingest.earlier_readings`.
    """
    if not len(erased):
        return
    positions, erased_positions = erased.find(matches.entries["id"], ts)
    _record(matches, erased, positions, erased_positions)
    read, erased_positions = erased.find(readings["id"], readings["ts"])
    _record(matches, erased, readings["row"][read], erased_positions)


def _record(
    matches: ArchivedMatches, erased: ErasedRows, rows: Array, erased_positions: Array
) -> None:
    """Of an erased row that several places brought, the one that brings it now counts."""
    units, lines = erased.units[erased_positions], erased.lines[erased_positions]
    is_same_place = (units == matches.entries["unit"][rows]) & (
        lines == matches.entries["line"][rows]
    )
    for is_recorded in (~is_same_place, is_same_place):
        selected = np.flatnonzero(is_recorded)
        matches.record_erased(rows[selected], units[selected], lines[selected])
