"""Correlations as queries over what happened up to each event."""

import pytest
import sqlglot

from moirae.sigma.generate import GeneratedRules
from recall.query import Tables, infer_shape
from tests.unit.moirae.sigma.test_generate import CORRELATION, CURL, NET, generate

PAIR = CORRELATION.replace("type: event_count", "type: temporal").replace(
    "rules: [account_list]", "rules: [account_list, curl]"
).replace("    condition: {gte: 3}\n", "")  # fmt: skip
NAMED_CURL = CURL.replace("title:", "name: curl\ntitle:")


def reason(result: GeneratedRules) -> str:
    (item,) = result.left_out
    assert item.kind == "correlation"
    return item.reason


def query(*documents: str) -> str:
    result = generate(*documents)
    assert not result.left_out
    (rule,) = result.rules
    sql: str = rule.values["expr"]
    # A query that the rule gate takes: joined within bounds of time, grouped by windows.
    infer_shape(sql, Tables({"process": "ts"}))
    return sql


def test_event_count_counts_rows_of_the_time_span_before_each_event() -> None:
    sql = query(NET, CORRELATION)
    assert "b.ts BETWEEN a.ts - INTERVAL 300 SECONDS AND a.ts" in sql
    assert "b.Computer = a.Computer" in sql
    assert "struct(Computer, Image, ts) AS matched_row" in sql
    assert sql.endswith(
        "GROUP BY Computer, ts, window(ts, '1 second')\nHAVING count(DISTINCT matched_row) >= 3"
    )


def test_value_count_counts_values_of_its_field() -> None:
    document = CORRELATION.replace("event_count", "value_count").replace(
        "{gte: 3}", "{field: User, gt: 3}"
    )
    sql = query(NET, document)
    assert "User AS matched_value" in sql
    assert sql.endswith("HAVING count(DISTINCT matched_value) > 3")


def test_temporal_counts_rules() -> None:
    sql = query(NET, NAMED_CURL, PAIR)
    assert "2 AS matched_rule" in sql
    assert sql.endswith("HAVING count(DISTINCT matched_rule) >= 2")
    extended = PAIR.replace(
        "timespan: 5m", "timespan: 5m\n    condition: account_list and not curl"
    )
    assert query(NET, NAMED_CURL, extended).endswith(
        "HAVING (bool_or(matched_rule = 1) AND NOT (bool_or(matched_rule = 2)))"
    )


def test_aliases_name_the_field_of_each_rule() -> None:
    aliased = PAIR.replace("group-by: [Computer]", "group-by: [who]").replace(
        "timespan: 5m", "timespan: 5m\n    aliases: {who: {account_list: User, curl: Computer}}"
    )
    sql = query(NET, NAMED_CURL, aliased)
    assert "User AS who" in sql
    assert "Computer AS who" in sql


def test_ordered_rules_are_joined_in_order() -> None:
    sql = query(NET, NAMED_CURL, PAIR.replace("temporal", "temporal_ordered"))
    assert sqlglot.parse_one(sql, dialect="spark").args["joins"]
    assert sql.startswith("SELECT r1.ts AS ts, r1.Computer AS Computer\nFROM (")
    assert "r0.ts BETWEEN r1.ts - INTERVAL 300 SECONDS AND r1.ts" in sql


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("event_count", "value_avg", "slides"),
        ("rules: [account_list]", "rules: [gone]", "gone"),
        ("timespan: 5m", "timespan: 5x", "5x"),
        ("timespan: 5m", "timespan: 99999999999d", "more than a year"),
        ("{gte: 3}", "{eq: 0}", "nothing happened"),
        ("{gte: 3}", "{lt: 1}", "nothing happened"),
        ("{gte: 3}", "{lte: 0}", "nothing happened"),
        ("{gte: 3}", "{gt: 1, lte: 3}", "exactly one condition"),
        ("account_list", "11111111-1111-4111-8111-111111111111", "another correlation"),
    ],
)
def test_what_cannot_be_said_is_a_reason(old: str, new: str, expected: str) -> None:
    document = (
        CORRELATION.replace("{gte: 3}", "{field: EventID, gte: 3}")
        if new == "value_avg"
        else CORRELATION
    )
    result = generate(NET, document.replace(old, new))
    assert expected in result.left_out[0].reason


def test_correlation_of_a_correlation_is_a_reason() -> None:
    outer = CORRELATION.replace("account_list", "11111111-1111-4111-8111-111111111111").replace(
        "id: 11111111", "id: 22222222"
    )
    assert reason(generate(NET, CORRELATION, outer)) == "it correlates another correlation"
