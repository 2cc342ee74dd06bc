"""Lints by what rules would have done."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from moirae.backtest.alerts import BacktestAlert
from moirae.backtest.reports.history_lints import RulePast, find_in_past, find_pairs
from moirae.config.settings import Settings, load_settings
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from tests.unit.moirae.backtest.test_alerts import make_alert

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    key: [host]
    source: {files: cpu/*.jsonl}
"""
RULE = "groups: [{name: g, rules: [{alert: %s, expr: 'SELECT host, ts FROM cpu', keep_firing_for: 5m}]}]"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder: Path = tmp_path_factory.mktemp("workspace")
    (folder / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(folder / "moirae.yaml", {})


def make_past(
    settings: Settings,
    alerts: Sequence[BacktestAlert],
    name: str = "A",
    events: int = 1,
    interval: timedelta | None = None,
) -> RulePast:
    rules, problems = parse_rules("r.yaml", RULE % name)
    assert not problems
    definition = Definition(rules.rules[0], {"host": "string"}, ("host",), ("host",))
    return RulePast(ActiveRule.of_workspace(definition, settings), alerts, events, interval)


def find(past: RulePast) -> list[tuple[str, str]]:
    return [(name, message) for name, _, message in find_in_past(past)]


def test_keep_firing_for_is_compared_with_the_interval_of_rows(settings: Settings) -> None:
    assert find(make_past(settings, [], interval=timedelta(minutes=5))) == []
    ((name, message),) = find(make_past(settings, [], interval=timedelta(minutes=10)))
    assert name == "short-keep-firing"
    assert message.startswith("keep_firing_for is 5m, and the rows of a key are 10m apart")


def test_three_alerts_of_a_key_in_an_hour_flap(settings: Settings) -> None:
    alerts = [make_alert(minute) for minute in (0, 20, 40)]
    ((name, message),) = find(make_past(settings, alerts))
    assert name == "flapping"
    assert message.startswith("3 alerts of host=a within an hour: ")
    assert find(make_past(settings, [*alerts[:2], make_alert(90)])) == []
    assert find(make_past(settings, [*alerts[:2], make_alert(40, "b")])) == []
    assert find(make_past(settings, [*alerts[:2], make_alert(40, hidden=True)])) == []


def test_rule_without_events_never_matched(settings: Settings) -> None:
    assert [name for name, _ in find(make_past(settings, [], events=0))] == ["never-matched"]


def test_rules_whose_alerts_all_have_partners_fire_together(settings: Settings) -> None:
    alerts = [make_alert(minute) for minute in (0, 100, 200)]
    first, second = make_past(settings, alerts), make_past(settings, alerts, "B")
    ((past, (name, _, message)),) = find_pairs([first, second])
    assert past is second
    assert name == "always-together"
    assert message.startswith("it always fires together with g/A (3 and 3 alerts)")
    other_host = make_past(settings, [*alerts[:2], make_alert(200, "b")], "B")
    assert list(find_pairs([first, other_host])) == []
    longer = make_past(settings, [*alerts, make_alert(300)], "B")
    assert list(find_pairs([first, longer])) == []
    few = [make_past(settings, alerts[:2], name) for name in "AB"]
    assert list(find_pairs(few)) == []
