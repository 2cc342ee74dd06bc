"""Rules that differ only in constants share a query."""

from moirae.evaluation.rule_groups import RuleGrouper
from tests.unit.moirae.evaluation.builders import COLUMNS, make_filter, make_rule

UPPER = "SELECT upper(host) AS host, v, ts FROM s"  # not plain


def test_rules_of_one_shape_share_a_group_with_a_table_of_constants() -> None:
    rules = [make_filter("A", 1.5), make_rule("B", UPPER), make_filter("C", 2.5)]
    shared, single = RuleGrouper({"s": COLUMNS}).group(rules)
    assert shared.rules == (rules[0], rules[2])
    assert shared.constants.to_pydict() == {"rule": [0, 1], "p0": [1.5, 2.5]}
    assert (single.rules, single.query) == ((rules[1],), None)


def test_part_of_a_group_has_the_constants_of_its_rules() -> None:
    rules = [make_filter(name, value) for name, value in zip("ABC", (1.5, 2.5, 3.5), strict=True)]
    (group,) = RuleGrouper({"s": COLUMNS}).group(rules)
    part = group.select(1, 3)
    assert part.rule_names == ["g/B", "g/C"]
    assert part.constants.to_pydict() == {"rule": [0, 1], "p0": [2.5, 3.5]}


def test_groups_of_a_rule_set_are_cached_until_the_active_rules_change() -> None:
    grouper = RuleGrouper({"s": COLUMNS})
    rules = [make_filter("A", 1.5), make_filter("B", 2.5)]
    groups = grouper.group(rules)
    assert grouper.group(tuple(rules)) is groups
    assert grouper.group(rules[:1]) is not groups
    grouper.remove_inactive(rules)
    assert grouper.group(rules) is not groups


def test_statement_evaluates_a_single_rule_by_its_query_as_written() -> None:
    grouper = RuleGrouper({"s": COLUMNS})
    rules = [make_rule("C", UPPER), make_filter("A", 1.5), make_filter("B", 2.5)]
    shared, single = grouper.group(rules)
    statement = grouper.build_statement([single, shared])
    assert statement.text.count(" UNION ALL ") == 1
    ((table, constants),) = statement.tables.items()
    assert table in statement.text
    assert constants.to_pydict() == {"rule": [1, 2], "p0": [1.5, 2.5]}
    statement = grouper.build_statement(grouper.group(rules[1:2]))
    assert "1.5" in statement.text
    assert statement.tables == {}


def test_statement_of_groups_is_cached_until_the_active_rules_change() -> None:
    grouper = RuleGrouper({"s": COLUMNS})
    rules = [make_filter("A", 1.5), make_rule("B", UPPER)]
    groups = grouper.group(rules)
    statement = grouper.build_statement(groups)
    assert grouper.build_statement(list(groups)) is statement
    assert grouper.build_statement(groups[:1]) is not statement
    grouper.remove_inactive(rules)
    assert grouper.build_statement(groups) is not statement


def test_reason_names_why_a_rule_is_not_plain() -> None:
    grouper = RuleGrouper({"s": COLUMNS})
    assert str(grouper.explain_not_plain(make_rule("A", UPPER))).startswith("not plain: ")
    assert grouper.explain_not_plain(make_filter("B", 1.5)) is None
