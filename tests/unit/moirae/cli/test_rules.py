"""Explanations of rules, and warnings and notes about them, on the command line."""

from moirae.cli.rules import fold_alike, format_explanation
from moirae.errors import Problem


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


def test_notes_of_one_text_are_counted_after_the_first() -> None:
    alike = [
        Problem("rules.yaml", line, 3, f"site/r{line}: no annotation runbook_url", "note")
        for line in range(1, 1_206)
    ]
    other = Problem("rules.yaml", 9, 3, "site/r9: no severity", "note")
    *shown, count, last = fold_alike([*alike, other])
    assert shown == alike[:3]
    assert count == "note: 1,202 more rules: no annotation runbook_url; -o json lists them"
    assert last == other


def test_errors_are_all_printed() -> None:
    errors = [Problem("rules.yaml", line, 3, f"site/r{line}: no key") for line in range(1, 30)]
    assert list(fold_alike(errors)) == errors
