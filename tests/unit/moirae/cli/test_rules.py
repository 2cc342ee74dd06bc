"""Explanations of rules on the command line."""

from moirae.cli.rules import format_explanation


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
