"""Sliding windows merged from panes have the same results as windows over all their rows."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.delta.schema import ARROW_TYPES
from archiver.time_range import TimeRange
from archiver.times import from_micros, micros_column, to_micros
from moirae.alerts.event import EventRow
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import EvaluationRequest, Events, RuleEngine
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import (
    ActiveRule,
    RuleCohort,
    RuleSlice,
    SettledRules,
    advance_cohorts,
    build_cohorts,
    due_slices,
)
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import DerivedQuery, Rule
from recall.query.shape import Tables, infer_shape
from tests.examples import examples
from tests.unit.moirae.evaluation.builders import evaluated_rules, make_request, run_engine

START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
SECOND = 1_000_000
COLUMNS = {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint", "ok": "boolean"}
TYPES = {
    "host": "string",
    "c": "bigint",
    "s": "bigint",
    "m": "double",
    "t": "double",
    "d": "bigint",
    "x": "bigint",
}
OUTPUTS = (
    "count(*) AS c",
    "sum(n) AS s",
    "avg(v) AS m",
    "max(v) AS t",
    "count(DISTINCT n) AS d",
    "min(n % 7) AS x",
)
TIMES = ("window.end", "window.start", "max(ts)", "min(ts)")
DERIVED = (
    "SELECT host, window.end AS ts, count(*) AS c, avg(v) AS m FROM s WHERE n <> 3 "
    "GROUP BY host, window(ts, '{size} seconds', '{slide} seconds')"
)


def running(name: str, expr: str, names: Sequence[str], derived: str) -> ActiveRule:
    """An active rule over the stream `s`."""
    tables = Tables({"s": "ts"}, frozenset(), {"d": derived})
    rule = Rule("g", AlertSpec(alert=name, expr=expr), (DerivedQuery("g", "d", derived),))
    definition = Definition(rule, {one: TYPES[one] for one in names}, (), ())
    return ActiveRule(definition, tables, infer_shape(expr, tables))


def standing(*rules: ActiveRule, settled_to: int | None = None) -> list[RuleCohort]:
    """Rules that are settled up to the same time."""
    return build_cohorts([SettledRules([rule], settled_to) for rule in rules])


@st.composite
def rules(draw: st.DrawFn) -> list[ActiveRule]:
    """Rules over sliding windows: some of one shape, some over a derived stream that slides."""
    active_rules = []
    for group in range(draw(st.integers(1, 3))):
        slide = draw(st.sampled_from([2, 5, 7, 10]))
        size = draw(st.integers(slide + 1, 60))
        outputs = draw(st.lists(st.sampled_from(OUTPUTS), min_size=1, unique=True))
        names = ["host", *(one.rsplit(" ", 1)[1] for one in outputs)]
        time, where, having = draw(st.sampled_from(TIMES)), draw(st.booleans()), draw(st.booleans())
        derived = DERIVED.format(size=size, slide=slide)
        window = (
            f"window(ts, '{size} seconds', '{slide} seconds', '{draw(st.integers(0, 3))} seconds')"
        )
        for k in range(draw(st.integers(1, 2))):
            expr = f"SELECT host, {', '.join(outputs)}, {time} AS ts FROM s {f'WHERE n > {k}' if where else ''} "
            expr += f"GROUP BY host, {window} {f'HAVING count(*) > {k}' if having else ''}"
            active_rules.append(running(f"R{group}{k}", expr, names, derived))
            expr = f"SELECT host, ts, m FROM d WHERE c > {k}"
            active_rules.append(running(f"D{group}{k}", expr, ["host", "m"], derived))
    return active_rules


def rows(rng: random.Random, count: int) -> pa.Table:
    """Rows of a few minutes, in no order."""
    odd = [None, math.nan, math.inf, -0.0, 1e15]
    values_by_column: dict[str, list[Any]] = {
        "ts": [
            from_micros(START + rng.randrange(200 * SECOND) // step * step)
            for step in rng.choices([1, SECOND], k=count)
        ],
        "host": [rng.choice(["a", "b", None]) for _ in range(count)],
        "v": [
            rng.choice(odd) if rng.random() < 0.1 else rng.uniform(-100, 100) for _ in range(count)
        ],
        "n": [rng.choice([None, *range(12)]) for _ in range(count)],
        "ok": [None] * count,
    }
    return pa.table(
        {
            name: pa.array(values, ARROW_TYPES[COLUMNS[name]])
            for name, values in values_by_column.items()
        }
    )


class Archived:
    """All rows, read in tables of any size."""

    def __init__(self, rows: pa.Table, rng: random.Random) -> None:
        self.rows, self.rng = rows, rng
        self.read = 0
        self.rows_held: int | None = None

    def between(self, time_range: TimeRange) -> pa.Table:
        """Rows with event times in a range."""
        return self.rows.filter(pa.array(time_range.mask(micros_column(self.rows, "ts"))))

    def count_in_memory(self, stream: str, time_range: TimeRange) -> int | None:
        """See `moirae.evaluation.panes.PaneInput`."""
        return self.rows_held

    def read_tables(self, stream: str, time_range: TimeRange) -> Iterator[pa.Table]:
        """See `moirae.evaluation.panes.PaneInput`."""
        rows, at = self.between(time_range), 0
        self.read += len(rows)
        while at < len(rows):
            row_count = self.rng.choice([60, 1000])
            yield rows.slice(at, row_count)
            at += row_count


NO_ROWS = pa.table({"ts": pa.array([], ARROW_TYPES["timestamp"])})
Finds = dict[str, list[EventRow]]


def evaluate_all_rows(
    grouper: RuleGrouper, duckdb: DuckDBRules, archived: Archived, part: RuleSlice
) -> Finds:
    """The event rows of windows aggregated from all their rows."""
    request = make_request(archived.between(part.input_range), part)
    return _evaluate_with(grouper, duckdb, part, request)


def evaluate_panes(grouper: RuleGrouper, panes: PaneCache, part: RuleSlice) -> Finds:
    """The event rows of windows merged from panes."""
    return _evaluate_with(grouper, panes, part, make_request(NO_ROWS, part))


def _evaluate_with(
    grouper: RuleGrouper, engine: RuleEngine, part: RuleSlice, request: EvaluationRequest
) -> Finds:
    outcomes = run_engine(engine, grouper.group(part.rules), request)
    finds_by_rule: Finds = {rule.name: [] for rule in evaluated_rules(outcomes)}
    for outcome in outcomes:
        if isinstance(outcome, Events):
            for rule, row in outcome.event_rows:
                finds_by_rule[rule.name].append(row)
    return {name: part.select_event_rows(finds) for name, finds in finds_by_rule.items()}


def alike(first: Finds, second: Finds) -> bool:
    """Equal rows, fractions to nine digits."""
    return first.keys() == second.keys() and all(
        len(finds) == len(second[name]) and all(map(_alike, _sorted(finds), _sorted(second[name])))
        for name, finds in first.items()
    )


def _sorted(finds: Sequence[EventRow]) -> list[EventRow]:
    def rounded(value: Any) -> Any:
        return f"{value:.6g}" if isinstance(value, float) else value

    return sorted(
        finds, key=lambda row: (row.ts, repr([rounded(value) for value in row.attributes.values()]))
    )


def _alike(first: EventRow, second: EventRow) -> bool:
    return first.ts == second.ts and _same(first.attributes, second.attributes)


def _same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return list(first) == list(second) and all(
        a == b
        or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9))
        for a, b in zip(first.values(), second.values(), strict=True)
    )


def _drive(running: list[ActiveRule], seed: int) -> None:
    """Evaluate both ways while time advances, with restarts, and rules that start and stop."""
    rng = random.Random(seed)
    archived = Archived(rows(rng, rng.randrange(200)), rng)
    grouper, duckdb = RuleGrouper({"s": COLUMNS}), DuckDBRules()
    panes, mark, standings = PaneCache(duckdb, archived), START, standing(*running)
    for _ in range(rng.randrange(2, 12)):
        mark += rng.choice([1, SECOND, rng.randrange(40 * SECOND), 300 * SECOND])
        if rng.random() < 0.15:
            panes = PaneCache(duckdb, archived)
        if rng.random() < 0.2:
            gone = rng.choice(running)
            panes.remove_inactive([rule for rule in running if rule is not gone])
        for part in due_slices(standings, {"s": mark}):
            assert part.range.end is not None
            kept_rules = tuple(rule for rule in part.rules if rng.random() < 0.9)
            if kept_rules:
                chosen = replace(part, rules=kept_rules)
                assert alike(
                    evaluate_panes(grouper, panes, chosen),
                    evaluate_all_rows(grouper, duckdb, archived, chosen),
                )
            standings = advance_cohorts(
                standings, {rule.name for rule in kept_rules}, part.range.end
            )


@examples(12)
@given(rules(), st.integers(0, 10**9))
def test_windows_from_panes_equal_windows_from_rows(running: list[ActiveRule], seed: int) -> None:
    _drive(running, seed)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(rules(), st.integers(0, 10**9))
def test_windows_from_panes_equal_windows_from_rows_in_many_examples(
    running: list[ActiveRule], seed: int
) -> None:
    _drive(running, seed)


def test_rows_are_aggregated_once() -> None:
    """After a restart, the rows that open windows still need are read again."""
    rng = random.Random(1)
    archived, grouper, duckdb = (
        Archived(rows(rng, 300), rng),
        RuleGrouper({"s": COLUMNS}),
        DuckDBRules(),
    )
    expr = "SELECT window.end AS ts, count(*) AS c FROM s WHERE n > {} GROUP BY window(ts, '20 seconds', '1 second')"
    standings = standing(
        *[
            running(f"R{k}", expr.format(k), ["c"], DERIVED.format(size=2, slide=1))
            for k in range(3)
        ]
    )
    panes = PaneCache(duckdb, archived)
    for second in range(100, 160):
        if second == 130:
            before, panes = archived.read, PaneCache(duckdb, archived)
        (part,) = due_slices(standings, {"s": START + second * SECOND})
        assert len(evaluate_panes(grouper, panes, part)) == 3
        standings = advance_cohorts(
            standings, {rule.name for rule in part.rules}, part.range.end or 0
        )
    periods = [
        TimeRange(None, START + 129 * SECOND),
        TimeRange(START + 110 * SECOND, START + 159 * SECOND),
    ]
    row_counts = [len(archived.between(period)) for period in periods]
    assert [before, archived.read - before] == row_counts


def test_a_long_and_a_short_window_share_panes() -> None:
    """Each row is aggregated once for both."""
    rng = random.Random(4)
    archived, grouper, duckdb = (
        Archived(rows(rng, 300), rng),
        RuleGrouper({"s": COLUMNS}),
        DuckDBRules(),
    )
    expr = "SELECT window.end AS ts, count(*) AS c FROM s GROUP BY window(ts, '{} seconds', '1 second')"
    both = [
        running(f"R{size}", expr.format(size), ["c"], DERIVED.format(size=2, slide=1))
        for size in (60, 5)
    ]
    panes, standings = PaneCache(duckdb, archived), standing(*both)
    for second in range(100, 160):
        for part in due_slices(standings, {"s": START + second * SECOND}):
            assert evaluate_panes(grouper, panes, part).keys() == {rule.name for rule in part.rules}
        standings = standing(*both, settled_to=START + second * SECOND)
    assert archived.read == len(archived.between(TimeRange(None, START + 159 * SECOND)))


def test_unreadable_file_leaves_windows_to_spark() -> None:
    """Later windows have panes again."""
    rng = random.Random(5)
    archived, grouper, duckdb = (
        Archived(rows(rng, 300), rng),
        RuleGrouper({"s": COLUMNS}),
        DuckDBRules(),
    )
    expr = "SELECT window.end AS ts, count(*) AS c FROM s GROUP BY window(ts, '20 seconds', '1 second')"
    rule = running("A", expr, ["c"], DERIVED.format(size=2, slide=1))
    panes, broken = PaneCache(duckdb, archived), Archived(archived.rows, rng)

    def pieces(stream: str, time_range: TimeRange) -> Iterator[pa.Table]:
        yield archived.between(TimeRange(time_range.start, START + 40 * SECOND))
        raise pa.ArrowInvalid("no Parquet file")

    broken.read_tables = pieces  # type: ignore[method-assign]
    panes._rows = broken
    (part,) = due_slices(standing(rule, settled_to=START + 50 * SECOND), {"s": START + 60 * SECOND})
    assert evaluate_panes(grouper, panes, part) == {}
    panes._rows = archived
    (part,) = due_slices(
        standing(rule, settled_to=START + 90 * SECOND), {"s": START + 100 * SECOND}
    )
    assert alike(
        evaluate_panes(grouper, panes, part), evaluate_all_rows(grouper, duckdb, archived, part)
    )


def test_panes_over_the_memory_limit_are_evicted() -> None:
    """Panes that fit stay."""
    rng = random.Random(2)
    archived, grouper, duckdb = (
        Archived(rows(rng, 300), rng),
        RuleGrouper({"s": COLUMNS}),
        DuckDBRules(),
    )
    few = "SELECT window.end AS ts, count(*) AS c FROM s GROUP BY window(ts, '20 seconds', '10 seconds')"
    many = "SELECT window.end AS ts, count(*) AS c FROM s GROUP BY n, host, window(ts, '20 seconds', '1 second')"
    both = [
        running(name, expr, ["c"], DERIVED.format(size=2, slide=1))
        for name, expr in (("A", few), ("B", many))
    ]
    panes = PaneCache(duckdb, archived, max_bytes=2_000)
    (part,) = due_slices(standing(*both), {"s": START + 150 * SECOND})
    assert evaluate_panes(grouper, panes, part).keys() == {"g/A"}
    assert evaluate_panes(grouper, panes, part).keys() == {"g/A"}


def test_few_rows_in_memory_are_aggregated_without_panes() -> None:
    """Rows outside memory always have panes, so that they are not read again at each slide."""
    rng = random.Random(3)
    archived, grouper, duckdb = (
        Archived(rows(rng, 300), rng),
        RuleGrouper({"s": COLUMNS}),
        DuckDBRules(),
    )
    expr = "SELECT window.end AS ts, count(*) AS c FROM s GROUP BY window(ts, '20 seconds', '1 second')"
    panes = PaneCache(duckdb, archived)
    rule = running("A", expr, ["c"], DERIVED.format(size=2, slide=1))
    (part,) = due_slices(standing(rule), {"s": START + 150 * SECOND})
    for rows_held, uses_panes in ((300, False), (10_000, True), (None, True)):
        archived.rows_held = rows_held
        assert bool(evaluate_panes(grouper, panes, part)) == uses_panes
