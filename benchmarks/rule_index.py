"""RS2: evaluation with 10,000 different rules ÷ with 100. RS5: detection rules ÷ SQLite's.

Both measure the processor time of evaluation alone: index, candidates and events, without decoding
and archive. Rows that the index leaves to Spark are counted, not evaluated. Batches of both setups
alternate.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count as numbers

import pyarrow as pa

from benchmarks.detection_rules import (
    STREAM,
    DetectionRule,
    SQLiteRules,
    read_columns,
    read_events,
    read_expected,
    read_rules,
)
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_processor_seconds, time_noise_kernel
from moirae.evaluation import (
    EvaluationRequest,
    IndexedRules,
    RowSource,
    RuleEngine,
    RuleGroup,
    RuleGrouper,
    evaluate_groups,
)
from moirae.evaluation.engine import Events, Outcome

_REPETITIONS = 7
_BATCH_ROWS = 500
_FEW_RULES = 100
_MANY_RULES = 10_000
_MAX_CANDIDATES = 1.2  # of many rules ÷ of few rules
# Letters that change the form of a text in memory, and are in every text of the rows.
_SUFFIXES = {"": "plain", "®": "latin", "ü": "umlaut", "日": "wide"}


class _Uncounted(RuleEngine):
    """Takes what is left to Spark, and counts its rows."""

    def __init__(self) -> None:
        self.row_count = 0

    def select(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> Sequence[RuleGroup]:
        return groups

    def run(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> Iterator[Outcome]:
        self.row_count += request.row_count
        yield Events(groups, [])


class _Setup:
    """Rules, each of which is a group of its own."""

    def __init__(self, rules: Sequence[DetectionRule]) -> None:
        columns = {STREAM: read_columns()}
        self._left = _Uncounted()
        self._index = IndexedRules(columns, RuleGrouper(columns))
        self._names = {rule.activate(): rule.name for rule in rules}
        self._groups = [RuleGroup((rule,)) for rule in self._names]

    def evaluate(self, table: pa.Table) -> set[tuple[str, int]]:
        """The pairs of a rule and the time of an event."""
        request = EvaluationRequest({STREAM: RowSource.of_table(table)})
        evaluation = evaluate_groups(self._groups, request, [self._index, self._left])
        return {
            (self._names[rule], row.ts)
            for rule, rows in evaluation.event_rows.items()
            for row in rows
        }

    def count_candidates(self, table: pa.Table) -> list[int]:
        """The candidate rows of each rule; of a rule that is not in the index, all rows."""
        self._index.take_counts()
        self.evaluate(table)
        counts = self._index.take_counts()
        request = EvaluationRequest({STREAM: RowSource.of_table(table)})
        indexed = set(self._index.select(self._groups, request))
        candidates: list[int] = []
        for group in self._groups:
            version = group.rules[0].rule_version
            count = counts[version].candidates if version in counts else 0
            candidates.append(count if group in indexed else len(table))
        return candidates

    def take_left_rows(self) -> int:
        """The rows that were left to Spark since the last call."""
        rows = self._left.row_count
        self._left.row_count = 0
        return rows


def run() -> list[BenchmarkResult]:
    """Measure both."""
    return [_measure_many_rules(), _measure_against_sqlite()]


def _measure_against_sqlite() -> BenchmarkResult:
    rules = read_rules()
    expected = read_expected()
    sqlite = SQLiteRules(rules)
    setup = _Setup(rules)
    table = read_events()
    row_numbers = table.set_column(
        table.column_names.index("ts"), "ts", pa.array(range(len(table)), pa.timestamp("us", "UTC"))
    )
    assert setup.evaluate(row_numbers) == sqlite.evaluate() == expected, "an engine misses a pair"
    ratios: list[float] = []
    noise: list[float] = []
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        seconds = measure_processor_seconds(lambda: setup.evaluate(table))
        sqlite_seconds = measure_processor_seconds(sqlite.evaluate)
        samples["index_s"].append(seconds)
        samples["sqlite_s"].append(sqlite_seconds)
        ratios.append(seconds / sqlite_seconds)
    return make_result(
        "RS5",
        f"{len(rules)} detection rules over {len(table)} process starts: processor time of the"
        " rule index ÷ SQLite's",
        ratios,
        target="≤ 0.3",
        details={name: rounded_median(values, 4) for name, values in samples.items()},
        noise=noise,
    )


def _measure_many_rules() -> BenchmarkResult:
    few_rules, many_rules = _choose_rules()
    few, many = _Setup(few_rules), _Setup(many_rules)
    events = read_events().slice(0, _BATCH_ROWS)
    details: dict[str, float] = {}
    details["candidates_ratio"] = round(
        sum(many.count_candidates(events)) / max(1, sum(few.count_candidates(events))), 2
    )
    ratios: list[float] = []
    noise: list[float] = []
    plain_seconds = 0.0
    for suffix, label in _SUFFIXES.items():
        table = read_events(suffix).slice(0, _BATCH_ROWS)
        samples = _alternate({"few": few, "many": many}, table, noise)
        median = rounded_median(samples["many"], 4)
        plain_seconds = plain_seconds or median
        details[f"{label}_10000_rules_s"] = median
        details[f"{label}_100_rules_s"] = rounded_median(samples["few"], 4)
        details[f"{label}_rows_left"] = many.take_left_rows() / (_REPETITIONS + 1)
        if not suffix:
            ratios = [a / b for a, b in zip(samples["many"], samples["few"], strict=True)]
        else:
            details[f"{label}_to_plain"] = round(median / plain_seconds, 2)
    return make_result(
        "RS2",
        f"processor time of a batch of {_BATCH_ROWS} rows with {_MANY_RULES:,} different rules ÷"
        f" with {_FEW_RULES} (candidates alike)",
        ratios,
        target="≤ 3",
        details=details,
        noise=noise,
    )


def _alternate(
    setups: Mapping[str, _Setup], table: pa.Table, noise: list[float]
) -> Mapping[str, list[float]]:
    """The processor seconds of each setup in each repetition."""
    for setup in setups.values():
        setup.evaluate(table)  # compiles
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        for name, setup in setups.items():
            samples[name].append(measure_processor_seconds(lambda: setup.evaluate(table)))  # noqa: B023
    return samples


def _choose_rules() -> tuple[list[DetectionRule], list[DetectionRule]]:
    """Some shared rules; these and as many with other constants as are needed.

    Rules that make candidates of rows are left out once there are enough.
    """
    events = read_events().slice(0, _BATCH_ROWS)
    rules = read_rules()
    counts = _Setup(rules).count_candidates(events)
    step = len(rules) // _FEW_RULES
    few = [rule for rule, rows in zip(rules, counts, strict=True) if rows < _BATCH_ROWS][::step]
    few = few[:_FEW_RULES]
    budget = (_MAX_CANDIDATES - 1) * sum(_Setup(few).count_candidates(events))
    many = list(few)
    for seed in numbers():
        print(f"RS2 {len(many)} rules", file=sys.stderr)
        copies = [rule.replace_constants(seed) for rule in rules]
        for rule, rows in zip(copies, _Setup(copies).count_candidates(events), strict=True):
            if rows <= budget and len(many) < _MANY_RULES:
                budget -= rows
                many.append(rule)
        if len(many) == _MANY_RULES:
            return few, many
    raise AssertionError
