"""When sliding windows are merged from panes; tests/property/test_panes.py compares the results."""

from collections.abc import Iterator

import pyarrow as pa

from archiver.time_range import TimeRange
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import ActiveRule, RuleSlice
from moirae.evaluation.rule_groups import RuleGrouper
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START_MICROS,
    evaluated_rules,
    make_request,
    make_rows,
    make_rule,
    run_engine,
)

SECOND = 1_000_000  # microseconds
MANY_ROWS = 1_000_000


class Input:
    """The same rows for each time range; counts how often they are read."""

    def __init__(self, row_count: int | None) -> None:
        self.row_count = row_count
        self.reads = 0

    def read_tables(self, stream: str, time_range: TimeRange) -> Iterator[pa.Table]:
        self.reads += 1
        yield make_rows(1.0, 2.0, 3.0)

    def count_in_memory(self, stream: str, time_range: TimeRange) -> int | None:
        return self.row_count


def _windows(name: str, slide: int) -> ActiveRule:
    window = f"window(ts, '10 seconds', '{slide} seconds')"
    expr = f"SELECT host, max(v) AS v, window.end AS ts FROM s GROUP BY host, {window}"
    return make_rule(name, expr)


def _evaluate(panes: PaneCache, *rules: ActiveRule) -> list[int]:
    """The positions of the rules that were evaluated from panes."""
    time_range = TimeRange(None, START_MICROS + 60 * SECOND)
    request = make_request(make_rows(), RuleSlice(rules, time_range, time_range))
    outcomes = run_engine(panes, RuleGrouper({"s": COLUMNS}).group(rules), request)
    return list(map(rules.index, evaluated_rules(outcomes)))


def test_only_windows_that_overlap_are_merged_from_panes() -> None:
    panes = PaneCache(DuckDBRules(), Input(MANY_ROWS))
    assert _evaluate(panes, _windows("A", slide=5), _windows("B", slide=10)) == [0]


def test_few_rows_in_memory_are_aggregated_without_panes() -> None:
    source = Input(100)
    assert _evaluate(PaneCache(DuckDBRules(), source), _windows("A", slide=5)) == []
    assert source.reads == 0


def test_rows_that_panes_include_are_not_read_again() -> None:
    source = Input(None)
    panes = PaneCache(DuckDBRules(), source)
    rule = _windows("A", slide=5)
    assert _evaluate(panes, rule) == _evaluate(panes, rule) == [0]
    assert source.reads == 1


def test_panes_of_inactive_rules_are_dropped() -> None:
    source = Input(None)
    panes = PaneCache(DuckDBRules(), source)
    rule = _windows("A", slide=5)
    _evaluate(panes, rule)
    panes.remove_inactive([])
    _evaluate(panes, rule)
    assert source.reads == 2
