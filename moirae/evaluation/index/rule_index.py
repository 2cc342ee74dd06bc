"""Rules over one table, found by what their conditions need of a row.

A row is evaluated with the rules for which it has one of the anchors. No I/O.
"""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moirae.errors import Undecided
from moirae.evaluation.index.anchor_lookup import AnchorLookup
from moirae.evaluation.index.anchors import Anchor, anchors_in, choose
from moirae.evaluation.index.compiled_rules import CompiledRule
from moirae.evaluation.index.index_batch import IndexBatch
from moirae.evaluation.index.text_columns import expand
from moirae.evaluation.index.values import Row, RowLayout

_BATCH_ROWS = 8_192  # rows that are converted at once
_SAMPLE_ROWS = 2_048  # rows over which the frequency of anchors is measured
# The frequencies are measured over the first rows, and again whenever so many times as many rows
# were evaluated.
_MEASURE_FACTOR = 8
_MAX_MEASURED_ROWS = 1 << 20  # rows after which frequencies are not measured again


class Verdicts(NamedTuple):
    """The rows for which a rule holds, and the candidates for which Spark alone knows it.

    `rule`: its position. `candidates`: how many there were. `values`: of the rows, by the layout.
    `seconds`: that their evaluation took.
    """

    rule: int
    candidates: int
    rows: list[int]
    values: list[Row]
    undecided: list[int]
    seconds: float


class AnchorFrequencies:
    """The share of rows that have an anchor, as measured. Shared by the indexes of a table."""

    def __init__(self) -> None:
        self._shares: dict[Anchor, float] = {}
        self._next_measurement = 0
        self._rows = 0

    def __call__(self, anchor: Anchor) -> float:
        return self._shares.get(anchor, _prior(anchor))

    def is_due(self, row_count: int) -> bool:
        """Whether to measure before the next rows are evaluated."""
        self._rows += row_count
        return self._next_measurement <= self._rows < _MAX_MEASURED_ROWS

    def measure(self, lookup: AnchorLookup, batch: IndexBatch) -> None:
        """Count the anchors in some rows."""
        sample = IndexBatch(batch.table.slice(0, _SAMPLE_ROWS), batch.layout)
        hits = lookup.find(sample)
        pairs = np.unique(hits.anchors * len(sample) + hits.rows) // max(1, len(sample))
        counts = np.bincount(pairs, minlength=len(lookup.anchors))
        for anchor, count in zip(lookup.anchors, counts.tolist(), strict=True):
            self._shares[anchor] = (count + _prior(anchor)) / (len(sample) + 1)
        self._next_measurement = self._rows * _MEASURE_FACTOR


def _prior(anchor: Anchor) -> float:
    """How frequent an anchor is thought to be: longer texts are rarer."""
    if isinstance(anchor.constant, str):
        return 1 / (1 + len(anchor.constant))
    return 0.1 if anchor.kind == "number" else 0.5


class RuleIndex:
    """Evaluates conditions over rows of one table."""

    def __init__(
        self,
        rules: Sequence[CompiledRule],
        layout: RowLayout,
        frequencies: AnchorFrequencies | None = None,
    ) -> None:
        self._rules = rules
        self._layout = layout
        self._frequencies = frequencies or AnchorFrequencies()
        anchors: set[Anchor] = set()
        for rule in rules:
            anchors |= anchors_in(rule.necessary)
        self._anchors = sorted(anchors, key=repr)
        self._lookup: AnchorLookup | None = None
        self._rules_of_anchors = _Groups([])
        self._unselective: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def evaluate(self, table: pa.Table) -> Iterator[Verdicts]:
        """The verdicts of rules with candidates among rows, by position in `table`.

        Those of a rule may be divided.
        """
        for start in range(0, len(table), _BATCH_ROWS):
            batch = IndexBatch(table.slice(start, _BATCH_ROWS), self._layout)
            for rule, candidates in self.find_candidates(batch):
                yield self._evaluate_rule(rule, candidates, batch.rows, start)

    def find_candidates(self, batch: IndexBatch) -> Iterator[tuple[int, list[int]]]:
        """Rules with the rows for which they may hold."""
        if self._frequencies.is_due(len(batch)) or self._lookup is None:
            self._choose_anchors(batch)
        assert self._lookup is not None
        hits = self._lookup.find(batch)
        rules, indexes = self._rules_of_anchors.expand(hits.anchors)
        pairs = np.unique(rules * len(batch) + hits.rows[indexes])
        candidate_rules, rows = pairs // len(batch), pairs % len(batch)
        starts = np.flatnonzero(np.diff(candidate_rules, prepend=-1))
        ends = np.append(starts[1:], len(pairs))[: len(starts)]
        row_list = rows.tolist()
        for rule, start, end in zip(
            candidate_rules[starts].tolist(), starts.tolist(), ends.tolist(), strict=True
        ):
            yield rule, row_list[start:end]
        for rule in self._unselective.tolist():
            yield rule, list(range(len(batch)))

    def _evaluate_rule(
        self, rule: int, candidates: list[int], rows: Sequence[Row], start: int
    ) -> Verdicts:
        started_at = time.perf_counter()
        holds = self._rules[rule].holds
        undecided: list[int] = []
        try:
            matches = [row for row in candidates if holds(rows[row])]
        except Undecided:
            matches = []
            for row in candidates:
                try:
                    if holds(rows[row]):
                        matches.append(row)
                except Undecided:
                    undecided.append(start + row)
        values = [rows[row] for row in matches]
        rows_that_hold = [start + row for row in matches]
        seconds = time.perf_counter() - started_at
        return Verdicts(rule, len(candidates), rows_that_hold, values, undecided, seconds)

    def _choose_anchors(self, batch: IndexBatch) -> None:
        self._frequencies.measure(AnchorLookup(self._anchors), batch)
        rules_by_anchor: dict[Anchor, list[int]] = {}
        unselective: list[int] = []
        for number, rule in enumerate(self._rules):
            choice = choose(rule.necessary, self._frequencies)
            if choice is None:
                unselective.append(number)
                continue
            for anchor in choice.anchors:
                rules_by_anchor.setdefault(anchor, []).append(number)
        self._lookup = AnchorLookup(list(rules_by_anchor))
        self._rules_of_anchors = _Groups(list(rules_by_anchor.values()))
        self._unselective = np.array(unselective, np.int64)


class _Groups:
    """Lists of numbers, by the position of the list."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        counts = np.fromiter(map(len, groups), np.int64, len(groups))
        self._bounds = np.concatenate([[0], np.cumsum(counts)])
        self._members = np.fromiter((n for group in groups for n in group), np.int64)

    def expand(
        self, groups: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """See `text_columns.expand`."""
        return expand(self._members, self._bounds, groups)
