"""Rules of Prometheus, translated: the same alerts at the same minutes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from moirae.config.settings import load_settings
from moirae.rule_tests.files import find_test_files, read_test_files
from moirae.rule_tests.results import RuleTestRun
from moirae.rule_tests.series import MISSING, expand_series
from tests.prometheus_examples.cases import KINDS, Case

WORKSPACE = """
streams:
  sample:
    columns: {ts: timestamp, instance: string, value: double}
    time: ts
    key: [instance]
    source: {files: sample/*.jsonl}
  other:
    columns: {ts: timestamp, instance: string, value: double}
    time: ts
    key: [instance]
    source: {files: other/*.jsonl}
relations:
  owners:
    columns: {instance: string, team: string}
    key: [instance]
    source: {file: owners.csv}
"""
OWNERS = [{"instance": "a", "team": "red"}, {"instance": "b", "team": "blue"}]


def test_there_are_ten_cases_of_each_kind() -> None:
    names = [case.name for cases in KINDS.values() for case in cases]
    assert {kind: len(cases) for kind, cases in KINDS.items()} == dict.fromkeys(KINDS, 10)
    assert len(set(names)) == len(names)


def test_pending_and_kept_alerts_follow_prometheus() -> None:
    """The states by which translations are judged, for an example of Prometheus's documentation."""
    case = Case("x", "", "", {"a": "1 0x7 1x3"}, lambda v, o: v[-1] == 0, None, 5, 1)
    states = "".join(state or "-" for state in _states(case, "a"))
    assert states == "-pppppfffkrrr".replace("k", "f").replace("r", "-")


@pytest.mark.slow
def test_translated_rules_have_the_same_alerts_at_each_minute(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "moirae.yaml").write_text(WORKSPACE)
    (tmp_path / "rules" / "tests").mkdir(parents=True)
    cases = [case for cases in KINDS.values() for case in cases]
    rules = [_make_rule(case) for case in cases]
    groups = {"groups": [{"name": "prometheus", "rules": rules}]}
    (tmp_path / "rules" / "rules.yaml").write_text(json.dumps(groups))
    tests = {"tests": [_make_test(case) for case in cases]}
    (tmp_path / "rules" / "tests" / "t.yaml").write_text(json.dumps(tests))
    settings = load_settings(tmp_path / "moirae.yaml", {})
    documents = read_test_files(settings, find_test_files(settings, []))
    run = RuleTestRun(settings, lambda: spark)
    failures = {
        result.name: [f"{failure.message} {failure.lines}" for failure in result.failures]
        for result in run.run(documents)
    }
    assert failures == {case.name: [] for case in cases}


def _make_rule(case: Case) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": case.name, "key": ["instance"]}
    if case in KINDS["absent"]:
        return {**rule, "absent": case.translation, "stream": "sample", "keep_firing_for": "0s"}
    rule["for"] = f"{case.for_minutes}m"
    # An alert ends with the first row that is good, or some minutes after it.
    rule["keep_firing_for"] = f"{case.keep_minutes + 1}m"
    return {**rule, "expr": case.translation}


def _make_test(case: Case) -> dict[str, Any]:
    streams = {"sample": case.series, "other": case.other or {}}
    if case.name.endswith("Team"):
        del streams["other"]
    inputs = {
        stream: [
            {"series": {"instance": instance}, "values": {"value": values}}
            for instance, values in series.items()
        ]
        for stream, series in streams.items()
        if series
    }
    expectations = list(_expect(case))
    test: dict[str, Any] = {"name": case.name, "input": inputs, "alert_rule_test": expectations}
    if case.name.endswith("Team"):
        test["relations"] = {"owners": OWNERS}
    return test


def _expect(case: Case) -> Iterator[dict[str, Any]]:
    """What Prometheus has at each minute; of `absent`, when alerts begin."""
    states = {instance: _states(case, instance) for instance in case.series}
    minutes = len(next(iter(states.values())))
    if case in KINDS["absent"]:
        begins = [
            minute
            for minute in range(1, minutes)
            if states["a"][minute] == "f" and states["a"][minute - 1] != "f"
        ]
        events = [{"ts": f"{minute}m", "instance": "a"} for minute in begins]
        yield {"eval_time": f"{minutes - 1}m", "alertname": case.name, "exp_events": events}
        return
    for minute in range(minutes):
        alerts: list[Mapping[str, Any]] = [
            {
                "state": "firing" if state[minute] == "f" else "pending",
                "exp_labels": {"instance": instance},
            }
            for instance, state in states.items()
            if state[minute] is not None
        ]
        # At the minute itself another row of that time may still come, which continues an alert.
        yield {"eval_time": f"{minute}m30s", "alertname": case.name, "exp_alerts": alerts}


def _states(case: Case, instance: str) -> list[str | None]:
    """By minute: f for firing, p for pending, None for inactive, as Prometheus decides it."""
    minutes = max(len(_values(series)) for series in case.series.values())
    values, other_values = (
        [*series, *[None] * (minutes - len(series))]
        for series in (
            _values(case.series[instance]),
            _values((case.other or {}).get(instance, "")),
        )
    )
    states: list[str | None] = []
    active_at = last_true = None
    for minute in range(len(values)):
        has_sample = values[minute] is not None or case.promql.startswith("absent")
        if has_sample and case.holds(values[: minute + 1], other_values[: minute + 1]):
            active_at = minute if active_at is None else active_at
            last_true = minute
        elif active_at is not None:
            assert last_true is not None
            fired = bool(states) and states[-1] == "f"
            if not fired or minute - last_true > case.keep_minutes:
                active_at = None
        state = None
        if active_at is not None:
            is_firing = minute - active_at >= case.for_minutes
            state = "f" if is_firing else "p"
        states.append(state)
    return states


def _values(text: str) -> list[Any]:
    return [None if value is MISSING else value for value in expand_series(text)]
