"""Rules that stand together move together, and each stands where it would by itself."""

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
PLACES = st.lists(
    st.tuples(st.sampled_from(SHAPES), st.sampled_from([None, 0, 5, 10])), min_size=1, max_size=8
)
MOVES = st.lists(st.tuples(st.sets(st.integers(0, 7)), st.integers(0, 40)), max_size=4)
MARKS = st.fixed_dictionaries(
    {"a": st.none() | st.integers(0, 60), "b": st.none() | st.integers(0, 60)}
)


def running(number: int, shape: Shape) -> ActiveRule:
    rule = Rule("g", AlertSpec(alert=f"R{number}", expr="SELECT ts FROM a"))
    return ActiveRule(Definition(rule, {}, (), ()), Tables({"a": "ts", "b": "ts"}), shape)


@given(places=PLACES, moves=MOVES, marks=MARKS)
def test_rules_stand_where_each_would_alone(
    places: list[tuple[Shape, int | None]],
    moves: list[tuple[set[int], int]],
    marks: dict[str, int | None],
) -> None:
    rules = [running(number, shape) for number, (shape, _) in enumerate(places)]
    alone = {rule.name: settled_to for rule, (_, settled_to) in zip(rules, places, strict=True)}
    standings = build_cohorts([([rule], alone[rule.name]) for rule in rules])
    for numbers, high in moves:
        judged = {f"g/R{number}" for number in numbers} & alone.keys()
        standings = advance_cohorts(standings, judged, high)
        alone |= dict.fromkeys(judged, high)
    assert {rule.name: one.settled_to for one in standings for rule in one.rules} == alone
    assert sum(len(one.rules) for one in standings) == len(rules)
    assert all(rule.shape == one.shape for one in standings for rule in one.rules)
    assert len({(one.shape, one.settled_to) for one in standings}) == len(standings)

    slices = {
        rule.name: (part.low, part.high)
        for part in due_slices(standings, marks)
        for rule in part.rules
    }
    for rule in rules:
        ((part, *others),) = [
            due_slices(build_cohorts([([rule], alone[rule.name])]), marks) or [None]
        ]
        assert not others
        assert slices.get(rule.name) == (
            None if part is None else (alone[rule.name], horizon(rule.shape, marks))
        )


def test_all_of_them_move_as_they_are() -> None:
    rules = [running(number, SHAPES[0]) for number in range(3)]
    (before,) = build_cohorts([(rules, 5)])
    (after,) = advance_cohorts([before], {rule.name for rule in rules}, 9)
    assert after.settled_to == 9
    assert after.rules is before.rules
