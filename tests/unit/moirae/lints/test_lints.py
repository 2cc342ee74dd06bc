"""Lints of rules, and how a rule silences them."""

from pathlib import Path

import pytest

from moirae.config.settings import Settings, load_settings
from moirae.lints.lints import find_lints
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    key: [host]
    source: {files: cpu/*.jsonl}
receivers: {team: {webhook: "http://localhost/"}}
routes:
- {receiver: team, matchers: ['severity="page"']}
- {receiver: team, matchers: ['host="db"', 'alertname=~"Db.*"']}
"""
RULE = """groups:
- name: g
  rules:
  - alert: {alert}
    expr: SELECT host, ts FROM cpu WHERE {where}
    key: [host]
    labels: {{severity: {severity}}}
"""
SILENCE = " (to silence: `lint: {%s: REASON}`)"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder: Path = tmp_path_factory.mktemp("workspace")
    (folder / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(folder / "moirae.yaml", {})


def find(
    settings: Settings,
    *keys: str,
    alert: str = "High",
    where: str = "v > 1",
    severity: str = "page",
) -> list[str]:
    text = RULE.format(alert=alert, where=where, severity=severity)
    text += "".join(f"    {key}\n" for key in keys)
    rules, problems = parse_rules("r.yaml", text)
    assert not problems
    definition = Definition(rules.rules[0], {"host": "string"}, ("host",), ("host",))
    problems = find_lints(settings, [definition])
    return [str(problem) for problem in problems if problem.severity != "note"]


def test_rule_without_anything_to_say_has_no_lints(settings: Settings) -> None:
    assert find(settings) == []
    assert (
        find(
            settings,
            "context: {own: {sql: SELECT event.host AS h}}",
            "recall:",
            "  norm: {sql: 'SELECT avg(h.v) AS m, count(*) AS n FROM cpu h', range: 7d}",
            "  like: {similar: {gap: 1h}}",
            "where: norm.m > 1",
        )
        == []
    )


def test_unused_context_is_found(settings: Settings) -> None:
    context = "context: {own: {sql: SELECT event.host AS h}, read: {sql: SELECT event.host AS h}}"
    recall = "recall: {norm: {sql: SELECT count(*) AS n FROM cpu JOIN read r ON TRUE, range: 7d}}"
    assert find(settings, context, recall) == [
        "r.yaml:8:20: warning: g/High: no similarity recall compares this context, and no query "
        "reads it; make it a surrounding, or remove it" + SILENCE % "unused-context"
    ]


def test_recall_without_bound_or_feedback_is_found(settings: Settings) -> None:
    recall = "recall: {all: {sql: SELECT max(h.v) AS m FROM cpu h%s}}"
    (warning,) = find(settings, recall % "")
    assert warning.startswith("r.yaml:8:19: warning: g/High: reads all of the history")
    assert find(settings, recall % ", range: 7d") == find(settings, recall % ", feedback: 1m") == []


@pytest.mark.parametrize(
    ("where", "is_reported"),
    [
        ("norm.n > 10", True),
        ("event.host = 'a' OR norm.total BETWEEN 1 AND 2", True),
        ("norm.m > 10", False),
        ("norm.failed / norm.n > 0.1", False),
        ("norm.n IS NOT NULL", False),
        ("norm.n_low > 10", False),
        ("norm.n > 10 AND norm.coverage > 0.5", False),
        ("norm.n < 10 AND norm.final", False),
    ],
)
def test_where_that_compares_a_part_of_a_sum_is_found(
    settings: Settings, where: str, is_reported: bool
) -> None:
    sql = "SELECT count(*) AS n, sum(h.v) AS total, avg(h.v) AS m, count_if(h.v > 1) AS failed FROM cpu h"
    warnings = find(settings, f"recall: {{norm: {{sql: '{sql}', range: 7d}}}}", f"where: {where}")
    assert [("partial-comparison" in warning) for warning in warnings] == [True] * is_reported


@pytest.mark.parametrize(
    ("outputs", "hidden"),
    [
        ("count(*) AS n, max(h.v) AS final", "final"),
        ("count(*) AS n, max(h.v) AS n_low", "n_low"),
        ("max(h.v) AS n, min(h.v) AS n_low", None),
    ],
)
def test_column_that_hides_a_coverage_is_found(
    settings: Settings, outputs: str, hidden: str | None
) -> None:
    warnings = find(
        settings, f"recall: {{norm: {{sql: 'SELECT {outputs} FROM cpu h', range: 7d}}}}"
    )
    assert [f"the column {hidden} hides" in warning for warning in warnings] == (
        [] if hidden is None else [True]
    )


@pytest.mark.parametrize(
    ("alert", "severity", "is_reported"),
    [("High", "page", False), ("High", "ticket", True), ("DbHigh", "ticket", False)],
)
def test_rule_that_no_route_takes_is_found(
    settings: Settings, alert: str, severity: str, is_reported: bool
) -> None:
    """Any host may be in an alert of a rule whose key has the host."""
    warnings = find(settings, alert=alert, severity=severity)
    assert [("no route takes its alerts" in warning) for warning in warnings] == [
        True
    ] * is_reported


def test_expression_that_spark_evaluates_is_shown_with_a_plain_one(settings: Settings) -> None:
    (warning,) = find(settings, where="coalesce(v, 0) > 1")
    assert (
        "Spark evaluates `COALESCE(v, 0) > 1`; `(v > 1 AND NOT v IS NULL)` says the same" in warning
    )
    # Another one is left to Spark anyway.
    assert find(settings, where="coalesce(v, 0) > 1 OR sqrt(v) > 2") == []


def test_lints_are_silenced_in_place_with_a_reason(settings: Settings) -> None:
    assert find(settings, "lint: {no-route: shown on the wall}", severity="ticket") == []
    assert find(settings, "lint: {no-route: shown on the wall}") == [
        "r.yaml:8:22: warning: g/High: the lint no-route has nothing to silence; remove it"
    ]
    _, problems = parse_rules(
        "r.yaml", RULE.format(alert="A", where="TRUE", severity="x") + "    lint: {no-rote: x}\n"
    )
    assert "no-rote" in str(problems[0])


def test_missing_severity_and_runbook_are_notes(settings: Settings) -> None:
    text = "groups: [{name: g, rules: [{alert: A, expr: 'SELECT host, ts FROM cpu'%s}]}]"
    rules, problems = parse_rules("r.yaml", text % "")
    assert not problems
    definition = Definition(rules.rules[0], {"host": "string"}, ("host",), ("host",))
    notes = [
        problem for problem in find_lints(settings, [definition]) if problem.severity == "note"
    ]
    assert [str(note).partition(" (to")[0] for note in notes] == [
        "r.yaml:1:36: note: g/A: no label severity: routes cannot tell whom its alerts wake",
        "r.yaml:1:36: note: g/A: no annotation runbook_url: what to do about its alerts",
    ]
    silenced = ", lint: {missing-severity: by route, missing-runbook: none, no-route: shown}"
    rules, problems = parse_rules("r.yaml", text % silenced)
    definition = Definition(rules.rules[0], {"host": "string"}, ("host",), ("host",))
    assert find_lints(settings, [definition]) == []


def test_silence_of_a_lint_of_history_is_not_idle_without_history(settings: Settings) -> None:
    assert find(settings, "lint: {flapping: it is watched}") == []
