"""Rules in the index: which are taken, their events, and the rows that Spark decides."""

from datetime import UTC, datetime

import pyarrow as pa

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.batches import RuleBatcher
from moirae.evaluation.indexed_rules import IndexedResult, IndexedRules
from moirae.evaluation.plan import ActiveRule
from moirae.rules import AlertSpec, Definition
from moirae.rules.rule_set import Rule

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


def _evaluate(*rules: ActiveRule) -> IndexedResult:
    indexed = IndexedRules(COLUMNS)
    selection = indexed.select(rules, RuleBatcher(COLUMNS))
    assert selection.indexed == rules
    return indexed.evaluate(rules, "s", ROWS)


def test_rows_that_match_become_events() -> None:
    contains = _rule("contains", "contains(lower(command), 'mimikatz')")
    unselective = _rule("unselective", "NOT contains(command, 'x')", "ts, upper(host) AS host, n")
    result = _evaluate(contains, unselective)
    assert result.undecided is None
    attributes = {rule: [row.attributes for row in rows] for rule, rows in result.event_rows}
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
    result = _evaluate(word)
    assert [(rule.name, len(rows)) for rule, rows in result.event_rows] == [("g/word", 1)]
    assert result.undecided is not None
    assert result.undecided.rules == (word,)
    assert result.undecided.rows["n"].to_pylist() == [None]


def test_few_plain_rules_and_windows_stay_with_their_engines() -> None:
    plain = _rule("plain", "host = 'A'")
    refused = _rule("refused", "regexp_replace(command, 'a', 'b') = 'x'")
    indexed = IndexedRules(COLUMNS)
    selection = indexed.select([plain, refused], RuleBatcher(COLUMNS))
    assert selection.remaining == (plain, refused)


def test_many_shapes_of_plain_rules_are_in_the_index() -> None:
    rules = [_rule(f"r{n}", " AND ".join(["host = 'A'"] * n)) for n in range(1, 30)]
    rules.append(_rule("all", "n > 0 OR n IS NULL"))
    indexed = IndexedRules(COLUMNS)
    selection = indexed.select(rules, RuleBatcher(COLUMNS))
    assert selection.remaining == (rules[-1],)
    result = indexed.evaluate(selection.indexed, "s", ROWS)
    assert [len(rows) for _, rows in result.event_rows] == [1] * 29
