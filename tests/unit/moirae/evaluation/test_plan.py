"""Cohorts of rules, and the slices that are due: each rule progresses as it would alone."""

from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import ALL_TIME, TimeRange
from moirae.alerts import EventRow
from moirae.evaluation.plan import (
    ActiveRule,
    RuleSlice,
    SettledRules,
    advance_cohorts,
    build_cohorts,
    due_slices,
    join_slices,
)
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query.shape import Shape, Tables

SHAPES = [
    Shape(frozenset({"a"})),
    Shape(frozenset({"a"}), period=10, reach=10),
    Shape(frozenset({"b"}), lag=3),
    Shape(frozenset({"a", "b"})),
]
PROGRESS = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.sampled_from([None, 0, 5, 10])), min_size=1, max_size=8
)
ADVANCES = st.lists(st.tuples(st.sets(st.integers(0, 7)), st.integers(0, 40)), max_size=4)
WATERMARKS = st.fixed_dictionaries(
    {"a": st.none() | st.integers(0, 60), "b": st.none() | st.integers(0, 60)}
)


def make_rule(number: int, shape: Shape) -> ActiveRule:
    rule = Rule("g", AlertSpec(alert=f"R{number}", expr="SELECT ts FROM a"))
    return ActiveRule(Definition(rule, {}, (), ()), Tables({"a": "ts", "b": "ts"}), shape)


@given(progress=PROGRESS, advances=ADVANCES, watermarks=WATERMARKS)
def test_rules_in_cohorts_progress_as_each_would_alone(
    progress: list[tuple[Shape, int | None]],
    advances: list[tuple[set[int], int]],
    watermarks: dict[str, int | None],
) -> None:
    rules = [make_rule(number, shape) for number, (shape, _) in enumerate(progress)]
    settled_to = {rule.name: time for rule, (_, time) in zip(rules, progress, strict=True)}
    cohorts = build_cohorts([SettledRules([rule], settled_to[rule.name]) for rule in rules])
    for numbers, high in advances:
        evaluated = {f"g/R{number}" for number in numbers} & settled_to.keys()
        cohorts = advance_cohorts(cohorts, evaluated, high)
        settled_to |= dict.fromkeys(evaluated, high)
    assert {rule.name: c.settled_to for c in cohorts for rule in c.rules} == settled_to
    assert sum(len(cohort.rules) for cohort in cohorts) == len(rules)
    assert all(rule.shape == cohort.shape for cohort in cohorts for rule in cohort.rules)
    assert len({(cohort.shape, cohort.settled_to) for cohort in cohorts}) == len(cohorts)

    bounds = {
        rule.name: rule_slice.range
        for rule_slice in due_slices(cohorts, watermarks)
        for rule in rule_slice.rules
    }
    for rule in rules:
        low = settled_to[rule.name]
        slices = due_slices(build_cohorts([SettledRules([rule], low)]), watermarks)
        assert len(slices) <= 1
        if slices:
            assert bounds[rule.name] == (low, rule.shape.horizon(watermarks))
        else:
            assert rule.name not in bounds


def test_a_cohort_that_advances_as_a_whole_keeps_its_tuple_of_rules() -> None:
    rules = [make_rule(number, SHAPES[0]) for number in range(3)]
    (before,) = build_cohorts([SettledRules(rules, 5)])
    (after,) = advance_cohorts([before], {rule.name for rule in rules}, 9)
    assert after.settled_to == 9
    assert after.rules is before.rules


def test_rules_with_the_same_bounds_reach_and_lag_share_a_slice() -> None:
    filters = [make_rule(number, SHAPES[0]) for number in range(3)]
    window = make_rule(3, SHAPES[1])
    parts = [((rule,), TimeRange(0, 50)) for rule in (*filters, window)]
    shared, alone, ahead = join_slices([*parts, ((filters[0],), TimeRange(5, 50))])
    assert shared == RuleSlice(tuple(filters), TimeRange(0, 50), TimeRange(0, 50))
    assert alone == RuleSlice((window,), TimeRange(0, 50), TimeRange(-10, 50))
    assert ahead.rules == (filters[0],)


def test_the_input_of_a_slice_includes_reach_and_lag() -> None:
    rule = make_rule(1, Shape(frozenset({"a"}), reach=7, lag=2))
    (rule_slice,) = due_slices(build_cohorts([SettledRules([rule], 20)]), {"a": 50})
    assert rule_slice == RuleSlice((rule,), TimeRange(20, 48), TimeRange(13, 50))
    (unbounded,) = due_slices(build_cohorts([SettledRules([rule], None)]), {"a": 50})
    assert unbounded == RuleSlice((rule,), TimeRange(None, 48), TimeRange(None, 50))


def test_a_slice_selects_event_rows_without_its_end() -> None:
    event_rows = [EventRow(ts, {}) for ts in (1, 2, 3)]
    bounded = RuleSlice((), TimeRange(2, 3), ALL_TIME)
    unbounded = RuleSlice((), ALL_TIME, ALL_TIME)
    assert [row.ts for row in bounded.select_event_rows(event_rows)] == [2]
    assert unbounded.select_event_rows(event_rows) == event_rows


def test_an_active_rule_has_the_properties_of_its_definition() -> None:
    rule = make_rule(1, SHAPES[0])
    assert rule.rule_version == (rule.name, rule.version) == ("g/R1", rule.definition.version)
    assert (rule.spec, rule.types, rule.columns) == (rule.definition.rule.spec, {}, ())
    assert (rule.delay, rule.keep_firing_for, rule.event_limit) == (0, 300_000_000, None)
    assert not (rule.is_absence or rule.has_questions or rule.recalls_every_event)
