"""Rules in the index: which are taken, their events, and the rows that Spark decides."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.costs import RuleCounts
from moirae.evaluation.engine import Declined, Events
from moirae.evaluation.indexed_rules import IndexedRules
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.rules import AlertSpec, Definition
from moirae.rules.rule_set import Rule
from tests.unit.moirae.evaluation.builders import make_request

COLUMNS = {"s": {"ts": "timestamp", "host": "string", "command": "string", "n": "int"}}
ROWS = pa.table(
    {
        "ts": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 4, ARROW_TYPES["timestamp"]),
        "host": ["A", "b", None, "é"],
        "command": ["run MIMIKATZ.exe", "ls", "\\bls\\b", "é ls"],
        "n": pa.array([1, 2, 3, None], pa.int32()),
    }
)


def _rule(name: str, condition: str, outputs: str = "ts, host, n") -> ActiveRule:
    spec = AlertSpec.model_validate(
        {"alert": name, "expr": f"SELECT {outputs} FROM s WHERE {condition}"}
    )
    types = {"host": "string", "n": "int"}
    definition = Definition(Rule("g", spec, ()), types, ("host",), ("host",), {})
    return ActiveRule.create(definition, {"s": "ts"}, frozenset())


REQUEST = make_request(ROWS)


def _select(*rules: ActiveRule) -> list[ActiveRule]:
    """The rules that the index evaluates."""
    grouper = RuleGrouper(COLUMNS)
    selected = IndexedRules(COLUMNS, grouper).select(grouper.group(rules), REQUEST)
    return [rule for group in selected for rule in group.rules]


def _evaluate(*rules: ActiveRule) -> tuple[dict[ActiveRule, list[Any]], list[Declined]]:
    """The attributes of events, and what is left to Spark."""
    grouper = RuleGrouper(COLUMNS)
    indexed = IndexedRules(COLUMNS, grouper)
    attributes: dict[ActiveRule, list[Any]] = {}
    declined: list[Declined] = []
    for outcome in indexed.run(indexed.select(grouper.group(rules), REQUEST), REQUEST):
        if isinstance(outcome, Events):
            for rule, event_row in outcome.event_rows:
                attributes.setdefault(rule, []).append(event_row.attributes)
        else:
            assert isinstance(outcome, Declined)
            declined.append(outcome)
    return attributes, declined


def test_rows_that_match_become_events() -> None:
    contains = _rule("contains", "contains(lower(command), 'mimikatz')")
    unselective = _rule("unselective", "NOT contains(command, 'x')", "ts, upper(host) AS host, n")
    attributes, declined = _evaluate(contains, unselective)
    assert not declined
    assert attributes == {
        contains: [{"host": "A", "n": 1}],
        unselective: [
            {"host": "B", "n": 2},
            {"host": None, "n": 3},
            {"host": "É", "n": None},
        ],
    }


def test_rows_that_the_engines_read_differently_are_left_to_spark() -> None:
    word = _rule("word", r"command RLIKE '\\bls\\b'")
    attributes, (declined,) = _evaluate(word)
    assert {rule: len(rows) for rule, rows in attributes.items()} == {word: 1}
    (group,) = declined.groups
    assert group.rules == (word,)
    table = declined.request.sources["s"].table
    assert table is not None
    assert table["n"].to_pylist() == [None]


def test_few_plain_rules_and_windows_stay_with_their_engines() -> None:
    plain = _rule("plain", "host = 'A'")
    refused = _rule("refused", "regexp_replace(command, 'a', 'b') = 'x'")
    assert _select(plain, refused) == []


def test_many_shapes_of_plain_rules_are_in_the_index() -> None:
    rules = [_rule(f"r{n}", " AND ".join(["host = 'A'"] * n)) for n in range(1, 30)]
    rules.append(_rule("all", "n > 0 OR n IS NULL"))
    assert _select(*rules) == rules[:-1]
    attributes, _ = _evaluate(*rules[:-1])
    assert [len(rows) for rows in attributes.values()] == [1] * 29


def test_rule_that_only_spark_evaluates_is_declined_with_the_rows_that_it_needs() -> None:
    rare = _rule("rare", "md5(command) <> 'x' AND contains(command, 'MIMIKATZ')")
    never = _rule("never", "md5(command) <> 'x' AND contains(command, 'nowhere')")
    attributes, (declined,) = _evaluate(rare, never)
    assert attributes == {}
    assert [group.rules for group in declined.groups] == [(rare,)]
    table = declined.request.sources["s"].table
    assert table is not None
    assert table["n"].to_pylist() == [1]


def test_candidates_and_matches_of_rules_are_counted_once() -> None:
    grouper = RuleGrouper(COLUMNS)
    indexed = IndexedRules(COLUMNS, grouper)
    rule = _rule("both", "contains(lower(command), 'ls') AND upper(host) = 'B'")
    list(indexed.run(grouper.group([rule]), REQUEST))
    assert indexed.take_counts() == {rule.rule_version: RuleCounts(1, 1)}
    assert indexed.take_counts() == {}


def test_rows_are_reduced_to_those_that_groups_need() -> None:
    grouper = RuleGrouper(COLUMNS)
    indexed = IndexedRules(COLUMNS, grouper)
    needs_all = _rule("all", "md5(command) <> 'x'")
    needs_some = _rule("some", "md5(command) <> 'x' AND n = 2")
    needs_none = _rule("none", "md5(command) <> 'x' AND n = 7")
    groups = grouper.group([needs_all, needs_some, needs_none])
    tables = indexed.reduce(groups, "s", ROWS)
    counts = {group.rules[0]: len(table) for group, table in tables.items()}
    assert counts == {needs_all: 4, needs_some: 1}
