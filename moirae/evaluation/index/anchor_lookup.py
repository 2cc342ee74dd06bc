"""Which rows of a batch have which anchors: one pass over each column. No I/O."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from ahocorasick_rs import AhoCorasick

from moirae.evaluation.index.anchors import Anchor
from moirae.evaluation.index.index_batch import IndexBatch
from moirae.evaluation.index.text_columns import expand_ranges

_Numbers = npt.NDArray[np.int64]


class Hits(NamedTuple):
    """Pairs of an anchor, by its number, and a row; a pair may be there several times."""

    anchors: _Numbers
    rows: _Numbers


_Finder = Callable[[IndexBatch], Hits]


class AnchorLookup:
    """Finds anchors in batches of rows. An anchor's number is its position in `anchors`."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self.anchors = tuple(anchors)
        groups: dict[tuple[str, str], list[int]] = {}
        for number, anchor in enumerate(self.anchors):
            groups.setdefault((anchor.column, anchor.kind), []).append(number)
        self._finders: list[_Finder] = []
        for (column, kind), numbers in groups.items():
            constants = [self.anchors[number].constant for number in numbers]
            self._finders.append(_build_finder(column, kind, constants, np.array(numbers)))

    def find(self, batch: IndexBatch) -> Hits:
        """All pairs of an anchor and a row that has it."""
        hits = [find(batch) for find in self._finders]
        if not hits:
            return Hits(np.empty(0, np.int64), np.empty(0, np.int64))
        return Hits(
            np.concatenate([pairs.anchors for pairs in hits]),
            np.concatenate([pairs.rows for pairs in hits]),
        )


def _build_finder(
    column: str, kind: str, constants: Sequence[str | int | float], numbers: _Numbers
) -> _Finder:
    match kind:
        case "contains":
            return _find_contained(column, list(map(str, constants)), numbers)
        case "equals":
            return _find_equal(column, list(map(str, constants)), numbers)
        case "number":
            return _find_number(column, constants, numbers)
    return _find_bounded(column, list(map(float, constants)), numbers, kind == "above")


def _find_contained(column: str, texts: Sequence[str], numbers: _Numbers) -> _Finder:
    automaton = AhoCorasick(list(texts), store_patterns=False)

    def find(batch: IndexBatch) -> Hits:
        column_texts = batch.text(column)
        text, starts = column_texts.folded
        matches = automaton.find_matches_as_indexes(text, overlapping=True)
        if not matches:
            return Hits(np.empty(0, np.int64), np.empty(0, np.int64))
        patterns, match_starts, match_ends = np.array(matches, np.int64).T
        values = np.searchsorted(starts, match_starts, side="right") - 1
        is_inside = match_ends <= starts[values + 1]
        count = len(starts)
        pairs = np.unique(patterns[is_inside] * count + values[is_inside])
        rows, indexes = column_texts.rows_of(pairs % count)
        return Hits(numbers[(pairs // count)[indexes]], rows)

    return find


def _find_equal(column: str, texts: Sequence[str], numbers: _Numbers) -> _Finder:
    number_by_text = dict(zip(texts, numbers.tolist(), strict=True))

    def find(batch: IndexBatch) -> Hits:
        column_texts = batch.text(column)
        text, starts = column_texts.folded
        values: list[int] = []
        anchors: list[int] = []
        bounds = starts.tolist()
        for value, start in enumerate(bounds[:-1]):
            number = number_by_text.get(text[start : bounds[value + 1]])
            if number is not None:
                values.append(value)
                anchors.append(number)
        rows, indexes = column_texts.rows_of(np.array(values, np.int64))
        return Hits(np.array(anchors, np.int64)[indexes], rows)

    return find


def _find_number(column: str, constants: Sequence[str | int | float], numbers: _Numbers) -> _Finder:
    def find(batch: IndexBatch) -> Hits:
        values = batch.table[column]
        if pa.types.is_integer(values.type):
            values = values.cast(pa.int64())
        constant_set = pa.array(constants, values.type)
        positions = pc.index_in(values, constant_set)
        rows = np.flatnonzero(pc.is_valid(positions).to_numpy())
        matched = positions.drop_null().to_numpy()
        return Hits(numbers[matched], rows)

    return find


def _find_bounded(
    column: str, bounds: Sequence[float], numbers: _Numbers, is_above: bool
) -> _Finder:
    order = np.argsort(bounds, kind="stable")
    ordered_bounds = np.array(bounds)[order]
    ordered_numbers = numbers[order]

    def find(batch: IndexBatch) -> Hits:
        values = batch.table[column]
        rows = np.flatnonzero(values.is_valid().to_numpy())
        # NaN is sorted after all other numbers, as Spark has it.
        operands = values.drop_null().cast(pa.float64(), safe=False).to_numpy()
        if is_above:
            ends = np.searchsorted(ordered_bounds, operands, side="right")
            starts = np.zeros_like(ends)
        else:
            starts = np.searchsorted(ordered_bounds, operands, side="left")
            ends = np.full_like(starts, len(bounds))
        anchors, indexes = expand_ranges(ordered_numbers, starts, ends)
        return Hits(anchors, rows[indexes])

    return find
