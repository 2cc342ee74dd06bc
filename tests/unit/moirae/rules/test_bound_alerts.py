import pytest

from moirae.rules.bound_alerts import (
    find_alert_readers,
    find_bound_alerts,
    find_bound_rules,
    reads_alerts,
)
from moirae.rules.model import AlertSpec
from recall.query import Unsupported
from tests.unit.moirae.rules.test_event_names import rules


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ts FROM alerts WHERE rule = 'g/A' AND state = 'firing'", {"g/A"}),
        ("SELECT ts FROM alerts x WHERE (x.rule IN ('g/A', 'g/B'))", {"g/A", "g/B"}),
        ("SELECT a.ts FROM cpu c JOIN alerts a ON 'g/A' = a.rule AND a.ts = c.ts", {"g/A"}),
        (
            "SELECT ts FROM alerts WHERE rule = 'g/A' UNION ALL SELECT ts FROM alerts WHERE rule = 'g/B'",
            {"g/A", "g/B"},
        ),
        ("SELECT ts FROM cpu", set()),
    ],
)
def test_rules_that_bound_alerts(sql: str, expected: set[str]) -> None:
    assert find_bound_rules(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ts FROM alerts",
        "SELECT ts FROM alerts WHERE rule = 'g/A' OR state = 'firing'",
        "SELECT ts FROM alerts WHERE rule LIKE 'g/%'",
        "SELECT ts FROM alerts WHERE NOT rule = 'g/A'",
        "SELECT ts FROM alerts WHERE rule = lower('g/A')",
        "SELECT c.ts FROM cpu c LEFT JOIN alerts a ON a.rule = 'g/A'",
        "SELECT c.ts FROM cpu c JOIN alerts a ON a.ts = c.ts WHERE rule = 'g/A'",
        "SELECT ts FROM (SELECT ts FROM alerts) WHERE rule = 'g/A'",
    ],
)
def test_alerts_of_any_rule_are_refused(sql: str) -> None:
    with pytest.raises(Unsupported, match="must name the rules of these"):
        find_bound_rules(sql)


def test_alerts_are_read_through_derived_streams() -> None:
    derived = {"fired": "SELECT ts FROM alerts WHERE rule = 'g/A'"}
    reader, other = rules("g", derived, R="SELECT ts FROM fired", S="SELECT ts FROM cpu")
    assert reads_alerts(reader)
    assert find_bound_alerts(reader) == {"g/A"}
    assert not reads_alerts(other)


def test_contexts_that_name_alerts_are_found() -> None:
    (rule,) = rules("g", R="SELECT ts FROM cpu")
    contexts = {"near": {"sql": "SELECT rule FROM alerts", "within": "1m"}}
    own = {"own": {"sql": "SELECT event.ts AS ts"}}
    spec = AlertSpec.model_validate(
        {"alert": "R", "expr": "SELECT ts FROM cpu", "context": {**contexts, **own}}
    )
    assert find_alert_readers(spec) == {"near"}
    assert find_alert_readers(rule.spec) == frozenset()
