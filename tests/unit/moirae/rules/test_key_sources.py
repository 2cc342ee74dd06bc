"""The streams whose rows tell that data of a rule's key come."""

from dataclasses import replace

import pytest

from moirae.rules import AlertSpec, Definition, KeySource, Rule, find_key_sources
from moirae.rules.key_sources import find_hold_problem
from moirae.rules.rule_set import DerivedQuery

COLUMNS = {
    "cpu": {"ts": "timestamp", "Host": "string", "v": "double"},
    "net": {"ts": "timestamp", "src": "string", "v": "double"},
}


def define(expr: str, *key: str, **keys: object) -> Definition:
    spec = AlertSpec.model_validate({"alert": "a", "expr": expr, **keys})
    return Definition(Rule(group="g", spec=spec), dict.fromkeys(key, "string"), key, key)


@pytest.mark.parametrize(
    ("definition", "sources"),
    [
        (define("SELECT ts, host FROM cpu", "host"), [KeySource("cpu", {"host": "Host"})]),
        (define("SELECT ts, lower(host) AS host FROM cpu", "host"), ()),
        (define("SELECT ts, owner FROM hosts", "owner"), ()),
        (define("SELECT ts, count(*) AS n FROM cpu GROUP BY ts"), [KeySource("cpu", {})]),
        (
            define("SELECT ts, host FROM cpu UNION ALL SELECT ts, src FROM net", "host"),
            [KeySource("cpu", {"host": "Host"}), KeySource("net", {"host": "src"})],
        ),
    ],
)
def test_sources_are_plain_columns_of_streams(definition: Definition, sources: object) -> None:
    assert find_key_sources(definition, COLUMNS) == sources


def test_sources_are_found_through_derived_streams_and_absence() -> None:
    definition = define("SELECT ts, host FROM loads", "host")
    query = DerivedQuery("g", "loads", "SELECT ts, Host AS host, v * 2 AS w FROM cpu")
    derived = replace(definition, rule=replace(definition.rule, derived=(query,)))
    assert find_key_sources(derived, COLUMNS) == [KeySource("cpu", {"host": "Host"})]
    spec = AlertSpec.model_validate({"alert": "a", "absent": "5m", "stream": "net", "key": ["src"]})
    absent = Definition(Rule(group="g", spec=spec), {"src": "string"}, ("src",), ("src",))
    assert find_key_sources(absent, COLUMNS) == [KeySource("net", {"src": "src"})]


def test_hold_needs_plain_columns_and_is_part_of_the_version() -> None:
    computed = "SELECT ts, lower(host) AS host FROM cpu"
    assert find_hold_problem(define(computed, "host"), COLUMNS) is None
    problem = find_hold_problem(define(computed, "host", on_silence="hold"), COLUMNS)
    assert problem is not None and "on_silence: hold needs a key of plain" in problem.message
    plain = "SELECT ts, host FROM cpu"
    held = define(plain, "host", on_silence="hold")
    assert find_hold_problem(held, COLUMNS) is None
    assert held.version != define(plain, "host").version
    assert define(plain, "host", on_silence="resolve").version == define(plain, "host").version
