"""A collection becomes rules: filters are applied, correlations have their rules."""

import pytest

from moirae.sigma.collection import parse_collection
from moirae.sigma.fields import StreamLayout
from moirae.sigma.generate import GeneratedRules, RuleGenerator
from moirae.sigma.model import SigmaMap
from moirae.sigma.queries import QueryWriter
from tests.unit.moirae.sigma.examples import CURL, CURL_ID, NET, NET_ID

COLUMNS = {"ts": "timestamp", "Computer": "string", "Image": "string", "CommandLine": "string"}
COLUMNS |= {"User": "string"}
FILTER = """\
title: not on build machines
logsource: {category: process_creation, product: windows}
filter:
    rules: any
    selection: {Computer|startswith: build}
    condition: not selection
"""
CORRELATION = """\
title: Many lists
id: 11111111-1111-4111-8111-111111111111
correlation:
    type: event_count
    rules: [account_list]
    group-by: [Computer]
    timespan: 5m
    condition: {gte: 3}
level: high
"""


def generate(*documents: str) -> GeneratedRules:
    layout = StreamLayout("process", COLUMNS, SigmaMap())
    generator = RuleGenerator(QueryWriter(layout, "ts", ("Computer", "Image")), ["Computer"])
    return generator.generate(parse_collection("f.yml", "---\n".join(documents)))


def test_rule_has_key_id_and_topic() -> None:
    (rule,) = generate(CURL).rules
    assert (rule.sigma_id, rule.title, rule.topic) == (
        CURL_ID,
        "Download by curl",
        "windows_process_creation",
    )
    assert (rule.values["key"], rule.values["id"]) == (["Computer"], ["Computer", "Image"])


def test_filter_is_applied_to_all_its_rules() -> None:
    result = generate(CURL, NET, FILTER)
    for rule in result.rules:
        assert "(startswith(lower(Computer), 'build')) IS NOT TRUE" in rule.values["expr"]
    assert generate(CURL, NET, FILTER).rules == result.rules
    assert not result.warnings


def test_filter_of_no_rule_is_a_warning_and_of_an_unknown_field_a_reason() -> None:
    result = generate(CURL, FILTER.replace("rules: any", f"rules: [{NET_ID}]"))
    assert result.warnings == ["f.yml:21: the filter is for no rule of the collection"]
    (item,) = generate(CURL, FILTER.replace("Computer|", "Rack|")).left_out
    assert (item.kind, item.reason) == ("field", "field Rack: no such column in stream process")


def test_correlated_rules_are_no_rules_of_their_own() -> None:
    result = generate(NET, CORRELATION)
    assert result.correlated == ["Account list"]
    (rule,) = result.rules
    assert (rule.title, rule.values["key"], rule.topic) == (
        "Many lists",
        ["Computer"],
        "correlations",
    )
    inside = CORRELATION.replace("type:", "generate: true\n    type:")
    for correlation in (inside, CORRELATION + "generate: true\n"):
        result = generate(NET, correlation)
        assert [rule.title for rule in result.rules] == ["Account list", "Many lists"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[account_list]", "[account_list, gone]"),
        ("[account_list]", f"[gone, {NET_ID}]"),
        ("type: event_count", "type: unheard_of"),
        ("timespan: 5m", "timespan: soon"),
        ("condition: {gte: 3}", "condition: {gte: [3]}"),
        ("level: high", "level: 7"),
        ("type: event_count", "type: value_avg"),
    ],
)
def test_rules_of_a_refused_correlation_do_not_page_by_themselves(old: str, new: str) -> None:
    correlation = CORRELATION.replace(old, new)
    for documents in ((NET, correlation), (correlation, NET)):
        result = generate(*documents)
        assert [item.location.title for item in result.left_out] == ["Many lists"]
        assert (result.rules, result.correlated) == ([], ["Account list"])
    result = generate(NET, correlation + "generate: true\n")
    assert [rule.title for rule in result.rules] == ["Account list"]


def test_refused_correlation_without_rules_leaves_the_others() -> None:
    result = generate(CURL, CORRELATION.replace("    rules: [account_list]\n", ""))
    assert [rule.title for rule in result.rules] == ["Download by curl"]
    assert [item.location.title for item in result.left_out] == ["Many lists"]


def test_correlation_of_an_unknown_rule_is_a_reason() -> None:
    (item,) = generate(CORRELATION).left_out
    assert "account_list" in item.reason
    assert item.kind == "correlation"
