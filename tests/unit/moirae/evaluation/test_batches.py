"""Rules that differ only in constants share a query."""

from moirae.evaluation.batches import RuleBatcher
from tests.unit.moirae.evaluation.builders import COLUMNS, make_filter, make_rule

UPPER = "SELECT upper(host) AS host, v, ts FROM s"  # not plain


def test_rules_of_one_shape_share_a_batch_with_a_table_of_constants() -> None:
    rules = [make_filter("A", 1.5), make_rule("B", UPPER), make_filter("C", 2.5)]
    batches = RuleBatcher({"s": COLUMNS}).batch(rules)
    (batch,) = batches.batches
    assert batch.rule_indexes == (0, 2)
    assert batch.constants.to_pydict() == {"rule": [0, 2], "p0": [1.5, 2.5]}
    assert batches.unbatched == (1,)


def test_batches_of_a_rule_set_are_cached_until_the_active_rules_change() -> None:
    batcher = RuleBatcher({"s": COLUMNS})
    rules = [make_filter("A", 1.5), make_filter("B", 2.5)]
    batches = batcher.batch(rules)
    assert batcher.batch(tuple(rules)) is batches
    assert batcher.batch(rules[:1]) is not batches
    batcher.remove_inactive(rules)
    assert batcher.batch(rules) is not batches


def test_statement_evaluates_a_single_rule_by_its_query_as_written() -> None:
    batcher = RuleBatcher({"s": COLUMNS})
    rules = [make_filter("A", 1.5), make_filter("B", 2.5), make_rule("C", UPPER)]
    (batch,) = batcher.batch(rules).batches
    statement = batcher.build_statement(rules)
    assert statement.text.count(" UNION ALL ") == 1
    assert batch.constants_table in statement.text
    assert statement.tables == {batch.constants_table: batch.constants}
    statement = batcher.build_statement(rules[:1])
    assert "1.5" in statement.text
    assert statement.tables == {}


def test_statement_of_a_rule_set_is_cached_until_the_active_rules_change() -> None:
    batcher = RuleBatcher({"s": COLUMNS})
    rules = [make_filter("A", 1.5), make_rule("B", UPPER)]
    statement = batcher.build_statement(rules)
    assert batcher.build_statement(tuple(rules)) is statement
    assert batcher.build_statement(rules[:1]) is not statement
    batcher.remove_inactive(rules)
    assert batcher.build_statement(rules) is not statement


def test_reason_names_why_a_rule_is_not_plain() -> None:
    batcher = RuleBatcher({"s": COLUMNS})
    assert str(batcher.explain_not_plain(make_rule("A", UPPER))).startswith("not plain: ")
    assert batcher.explain_not_plain(make_filter("B", 1.5)) is None
