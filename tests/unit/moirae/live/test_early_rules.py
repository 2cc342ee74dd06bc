"""Applied rules are compiled in a thread; what cannot be compiled there changes nothing."""

from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from moirae.evaluation.prepared_rules import PreparedRules
from moirae.live import early_rules
from moirae.rules import Definition
from tests.unit.moirae.evaluation.builders import COLUMNS, make_filter

_ARCHIVE: Any = Mock(tables={"s": Mock(schema=Mock(time="ts"))})
_RELATIONS: Any = Mock(columns={})


def _start(
    monkeypatch: pytest.MonkeyPatch, prepared: PreparedRules, definitions: list[Definition]
) -> None:
    registry = Mock(desired_rules=Mock(return_value=definitions))
    monkeypatch.setattr(early_rules, "connect_database", lambda *_: nullcontext())
    monkeypatch.setattr(early_rules, "RuleRegistry", lambda _: registry)
    future = early_rules.start_preparing(Mock(), prepared, _ARCHIVE, _RELATIONS)
    assert future.result(timeout=60.0) is None


def test_applied_rules_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = PreparedRules({"s": COLUMNS}, {})
    definition = make_filter("A", 1.0).definition
    _start(monkeypatch, prepared, [definition])
    rule = prepared.prepare(definition, {"s": "ts"}, frozenset())
    assert prepared.prepare(definition, {"s": "ts"}, frozenset()) is rule
    assert rule.definition is definition


def test_a_rule_that_cannot_be_prepared_is_left_to_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = PreparedRules({"s": COLUMNS}, {})
    invalid = make_filter("A", 1.0).definition
    monkeypatch.setattr(PreparedRules, "prepare", Mock(side_effect=ValueError("invalid")))
    _start(monkeypatch, prepared, [invalid])
