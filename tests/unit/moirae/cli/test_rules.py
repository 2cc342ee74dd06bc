"""Rules named on the command line."""

from types import SimpleNamespace
from typing import Any

import pytest

from moirae.cli.rules import _find_definition
from moirae.errors import UsageError

DEFINITIONS: Any = [
    SimpleNamespace(name="web/Slow"),
    SimpleNamespace(name="web/Down"),
    SimpleNamespace(name="db/Down"),
]


@pytest.mark.parametrize(("name", "rule"), [("Slow", "web/Slow"), ("db/Down", "db/Down")])
def test_rule_is_found_with_or_without_its_group(name: str, rule: str) -> None:
    assert _find_definition(DEFINITIONS, name).name == rule


def test_rule_in_several_groups_is_ambiguous() -> None:
    with pytest.raises(UsageError, match="rule 'Down' is ambiguous: web/Down, db/Down"):
        _find_definition(DEFINITIONS, "Down")


def test_unknown_rule_suggests_a_similar_name() -> None:
    with pytest.raises(UsageError, match="no rule 'Slwo', did you mean Slow"):
        _find_definition(DEFINITIONS, "Slwo")
