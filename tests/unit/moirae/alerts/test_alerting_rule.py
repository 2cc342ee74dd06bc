"""What all alerts of a rule version share."""

from moirae.alerts.alerting_rule import make_alerting_rule
from moirae.alerts.lifecycle import AlertTiming
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule

SECOND = 1_000_000  # microseconds


def test_labels_and_timing_are_those_of_the_rule() -> None:
    spec = AlertSpec.model_validate(
        {
            "alert": "A",
            "expr": "SELECT ts FROM cpu",
            "for": "5s",
            "keep_firing_for": "1m",
            "labels": {"severity": "page"},
        }
    )
    definition = Definition(Rule("g", spec), {}, (), ())
    alerting_rule = make_alerting_rule(definition)
    assert alerting_rule.rule == "g/A"
    assert alerting_rule.version == definition.version
    assert alerting_rule.timing == AlertTiming(5 * SECOND, 60 * SECOND)
    assert alerting_rule.labels == {"alertname": "A", "severity": "page"}
