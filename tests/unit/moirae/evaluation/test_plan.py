"""Cohorts of rules: rules of one position are evaluated together, with the result of each alone."""

from hypothesis import given
from hypothesis import strategies as st

from moirae.evaluation.plan import ActiveRule, advance_cohorts, build_cohorts, due_slices, horizon
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
POSITIONS = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.sampled_from([None, 0, 5, 10])), min_size=1, max_size=8
)
ADVANCES = st.lists(st.tuples(st.sets(st.integers(0, 7)), st.integers(0, 40)), max_size=4)
WATERMARKS = st.fixed_dictionaries(
    {"a": st.none() | st.integers(0, 60), "b": st.none() | st.integers(0, 60)}
)


def make_rule(number: int, shape: Shape) -> ActiveRule:
    rule = Rule("g", AlertSpec(alert=f"R{number}", expr="SELECT ts FROM a"))
    return ActiveRule(Definition(rule, {}, (), ()), Tables({"a": "ts", "b": "ts"}), shape)


@given(positions=POSITIONS, advances=ADVANCES, watermarks=WATERMARKS)
def test_cohorts_settle_each_rule_as_if_alone(
    positions: list[tuple[Shape, int | None]],
    advances: list[tuple[set[int], int]],
    watermarks: dict[str, int | None],
) -> None:
    rules = [make_rule(number, shape) for number, (shape, _) in enumerate(positions)]
    settled_by_rule = {
        rule.name: settled_to for rule, (_, settled_to) in zip(rules, positions, strict=True)
    }
    cohorts = build_cohorts([([rule], settled_by_rule[rule.name]) for rule in rules])
    for numbers, high in advances:
        evaluated = {f"g/R{number}" for number in numbers} & settled_by_rule.keys()
        cohorts = advance_cohorts(cohorts, evaluated, high)
        settled_by_rule |= dict.fromkeys(evaluated, high)
    assert {
        rule.name: cohort.settled_to for cohort in cohorts for rule in cohort.rules
    } == settled_by_rule
    assert sum(len(cohort.rules) for cohort in cohorts) == len(rules)
    assert all(rule.shape == cohort.shape for cohort in cohorts for rule in cohort.rules)
    assert len({(cohort.shape, cohort.settled_to) for cohort in cohorts}) == len(cohorts)

    slices = {
        rule.name: (part.low, part.high)
        for part in due_slices(cohorts, watermarks)
        for rule in part.rules
    }
    for rule in rules:
        ((part, *further),) = [
            due_slices(build_cohorts([([rule], settled_by_rule[rule.name])]), watermarks) or [None]
        ]
        assert not further
        assert slices.get(rule.name) == (
            None if part is None else (settled_by_rule[rule.name], horizon(rule.shape, watermarks))
        )


def test_cohort_that_advances_whole_is_not_split() -> None:
    rules = [make_rule(number, SHAPES[0]) for number in range(3)]
    (before,) = build_cohorts([(rules, 5)])
    (after,) = advance_cohorts([before], {rule.name for rule in rules}, 9)
    assert after.settled_to == 9
    assert after.rules is before.rules
