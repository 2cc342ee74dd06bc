"""Rules named on the command line."""

from types import SimpleNamespace
from typing import Any

import pytest

from moirae.cli.rules import _find_definition, format_explanation
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


def test_explanation_has_durations_with_units_and_names_engines() -> None:
    recalls = {
        "norm": {"kind": "sql", "engine": "recall process or spark"},
        "similar": {"kind": "similarity", "engine": "recall process"},
    }
    overlap = {"before": 599.999999, "after": 0.0}
    explanation = {
        "evaluation": {"engine": "spark", "reach": 300.0, "lag": -60.0, "overlap": overlap},
        "contexts": {"own": {"within": 3600.0, "delay": 0.5, "limit": 2000}},
        "recalls": recalls,
    }
    assert format_explanation(explanation) == {
        "evaluation": {
            "engine": "Spark",
            "reach": "5m",
            "lag": "-1m",
            "overlap": {"before": "10m", "after": "0s"},
        },
        "contexts": {"own": {"within": "1h", "delay": "500ms", "limit": 2000}},
        "recalls": {
            "norm": {"kind": "sql", "engine": "DuckDB or Spark"},
            "similar": {"kind": "similarity", "engine": "recall process"},
        },
    }
    assert recalls["norm"]["engine"] == "recall process or spark"
