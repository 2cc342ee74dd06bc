from dataclasses import replace
from unittest.mock import Mock

from moirae.deployments.drafts import _find_changed_events
from moirae.rules.definition import Definition
from moirae.rules.event_streams import build_event_streams
from moirae.rules.model import Group
from moirae.rules.rule_set import build_rules
from tests.unit.moirae.rules.test_event_streams import CPU, definition

EXPR = "SELECT host, ts, v FROM cpu"
ABSENCE = {"alert": "High", "stream": "cpu", "absent": "5m", "key": ["host"]}


def test_draft_must_not_change_events_that_others_read() -> None:
    settings = Mock(streams={"cpu": CPU})
    streams = build_event_streams("events.high", definition(EXPR), settings.streams)
    reader = definition("SELECT ts FROM events.high")
    reader = replace(reader, rule=replace(reader.rule, event_streams=tuple(streams)))
    (rule,) = build_rules(Group.model_validate({"name": "g", "rules": [ABSENCE]}))
    absence = Definition(rule, {"host": "string"}, ("host",), ("host",))
    assert not [*_find_changed_events(definition(EXPR), [reader], settings)]
    for changed in (definition(f"{EXPR} WHERE v > 1"), absence):
        (problem,) = _find_changed_events(changed, [reader], settings)
        assert "reads events of this rule" in str(problem)
