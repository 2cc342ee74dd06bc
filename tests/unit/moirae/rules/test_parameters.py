"""Constants of rules: where they are filled in, and where they are not."""

import pytest

from moirae.rules.parameters import fill_parameters, find_source_column
from moirae.rules.rule_set import Rule
from moirae.rules.unused_keys import find_unused_keys
from tests.unit.moirae.rules.rule_files import (
    RULE,
    parse_problems,
    read_rule,
    read_rules,
    with_keys,
)

EXPR = "SELECT host, ts FROM cpu"
WITH_PARAMETER = RULE.replace(EXPR, "SELECT host, ts FROM cpu WHERE v > :high AND host <> :name")
PARAMETERS = "    parameters: {high: 90, name: it's}\n"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("v > :high", "v > 90"),
        ("v>:high AND v<:high", "v>90 AND v<90"),
        ("v = -:low", "v = - -1.5"),
        ("v > :low", "v > -1.5"),
        ("host = :name", "host = 'it\\'s'"),
        ("window(ts, :span)", "window(ts, '5 minutes')"),
        ("INTERVAL :high MINUTES", "INTERVAL 90 MINUTES"),
        ("a = :is_on", "a = TRUE"),
        (
            "x = ':high' AND `:high` /* :high */ -- :high",
            "x = ':high' AND `:high` /* :high */ -- :high",
        ),
        ("v::high, :higher, : high", "v::high, :higher, : high"),
        ("'open :high", "'open :high"),
    ],
)
def test_values_replace_names_outside_of_strings_and_comments(text: str, filled: str) -> None:
    values = {"high": 90, "low": -1.5, "name": "it's", "span": "5 minutes", "is_on": True}
    assert fill_parameters(text, values) == filled


def test_version_is_that_of_the_sql_with_the_constant_in_it() -> None:
    rule = read_rule(WITH_PARAMETER + PARAMETERS)
    written = read_rule(WITH_PARAMETER.replace(":high", "90").replace(":name", "'it\\'s'"))
    assert rule.version == written.version
    assert rule.with_parameters({"high": 91}).version != rule.version
    assert rule.with_parameters({"high": 90}).spec == rule.spec


def test_stored_rule_has_the_same_sql_and_parameters() -> None:
    rule = read_rule(WITH_PARAMETER + PARAMETERS)
    assert Rule.from_json(rule.to_json()).spec == rule.spec
    assert "parameters" not in read_rule(RULE).to_json()["rules"][0]


def test_all_sql_of_a_rule_is_filled() -> None:
    rule = read_rule(
        with_keys(
            "parameters: {n: 3}",
            "context: {own: {sql: 'SELECT :n AS n'}}",
            "surroundings: {near: {sql: 'SELECT v FROM cpu WHERE v > :n', within: 1m}}",
            "recall:",
            "  norm: {sql: 'SELECT avg(h.v) AS m FROM cpu h WHERE h.v > :n'}",
            "  like: {similar: {contexts: [own], gap: 1h}}",
            "where: norm.m > :n",
            "then: [{stream: s, sql: 'SELECT m FROM norm WHERE m > :n'}]",
        )
    )
    spec = rule.spec
    texts = [spec.context["own"].sql, spec.surroundings["near"].sql, spec.where, spec.then[0].sql]
    texts.append(spec.recall["norm"].model_dump()["sql"])
    assert all(text is not None and ":n" not in text and "3" in text for text in texts)


def test_columns_of_problems_are_those_of_the_text_as_written() -> None:
    values = {"high": 1_000_000, "x": 1}
    text = "SELECT a\nFROM t WHERE v > :high AND b = :x AND c"
    filled = fill_parameters(text, values)
    for word in ("FROM", "WHERE", "AND b", "AND c"):
        line = text.index(word) - text.index("\n")
        column = filled.index(word) - filled.index("\n")
        assert find_source_column(text, values, 2, column) == line
    inside = filled.index("1000000") - filled.index("\n") + 4
    assert find_source_column(text, values, 2, inside) == text.index(":high") - text.index("\n")
    assert find_source_column(text, values, 1, 8) == 8
    rule = read_rule(WITH_PARAMETER.replace("90", "x") + PARAMETERS)
    line_of_expr = WITH_PARAMETER.splitlines()[4]
    assert rule.position("expr", line=1, column=rule.spec.expr.index("AND") + 1) == (  # type: ignore[union-attr]
        5,
        line_of_expr.index("AND") + 1,
    )


def test_unused_and_unknown_parameters_are_reported() -> None:
    rules = read_rules(WITH_PARAMETER + "    parameters: {high: 1, name: a, other: 2}\n")
    assert [str(problem) for problem in find_unused_keys(rules)] == [
        "r.yaml:7:36: warning: g/A.parameters.other: neither SQL contains :other nor annotations "
        "parameters.other"
    ]
    used = 'annotations: {summary: "above {{ parameters.other }}"}'
    assert not find_unused_keys(read_rules(with_keys("parameters: {other: 2}", used)))
    assert parse_problems(with_keys("parameters: {}", used)) == [
        "r.yaml:8:29: g/A.annotations.summary: unknown parameter 'other'"
    ]
    assert parse_problems(with_keys("parameters: {n: [1], m: null}")) == [
        f"r.yaml:7:{column}: g/A.parameters.{name}: must be a number, a text, true or false"
        for column, name in ((21, "n"), (26, "m"))
    ]
