"""Properties of checked rules."""

from datetime import timedelta

from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule


def define(**keys: object) -> Definition:
    spec = AlertSpec.model_validate({"alert": "A", **keys})
    return Definition(Rule("g", spec), {"host": "string"}, ("host",), ("host",))


def test_durations_are_in_microseconds() -> None:
    definition = define(
        expr="SELECT host, ts FROM s",
        **{"for": timedelta(seconds=1), "keep_firing_for": "2s", "delay": "3s"},
    )
    durations = (definition.pending_for, definition.keep_firing_for, definition.delay)
    assert durations == (1_000_000, 2_000_000, 3_000_000)


def test_defaults_are_filled_in() -> None:
    definition = define(expr="SELECT host, ts FROM s")
    assert (definition.name, definition.spec.enabled) == ("g/A", True)
    assert not definition.is_absence
    assert not definition.recalls_every_event
    assert not definition.has_questions
    assert (definition.recalls, definition.event_limit) == ({}, None)


def test_a_rule_with_absent_is_an_absence_rule() -> None:
    assert define(absent="5m", stream="s", key=["host"]).is_absence
