"""Tests of rules, with Spark: examples of Prometheus's documentation, and what fails."""

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moirae.config.settings import load_settings
from moirae.rule_tests import runner
from moirae.rule_tests.expectations import UnmetExpectation
from moirae.rule_tests.files import find_test_files, read_test_files
from moirae.rule_tests.results import RuleTestRun

pytestmark = pytest.mark.slow

FIRST_EXAMPLE = Path(__file__).parents[2] / "moirae" / "examples" / "first"
WORKSPACE = """
streams:
  up:
    columns: {ts: timestamp, job: string, instance: string, value: double}
    time: ts
    id: [job, instance]
    key: [instance]
    source: {files: up/*.jsonl}
relations:
  owners: {columns: {job: string, team: string}, key: [job], source: {file: owners.csv}}
  instances: {columns: {instance: string}, key: [instance], source: {file: instances.csv}}
receivers:
  ops: {webhook: "http://127.0.0.1:9/ops"}
  team: {webhook: "http://127.0.0.1:9/team", send_resolved: false}
routes:
- receiver: ops
  group_by: [severity]
  group_wait: 1m
  group_interval: 5m
  routes:
  - {receiver: team, match: {job: node}, group_by: [alertname], group_wait: 30s}
inhibit_rules:
- source_matchers: [alertname = InstanceDown]
  target_matchers: [alertname = Slow]
  equal: [instance]
"""
RULES = """
groups:
- name: example
  rules:
  - alert: InstanceDown
    expr: SELECT ts, job, instance FROM up WHERE value = 0
    for: 5m
    keep_firing_for: 1m
    labels: {severity: page}
    annotations:
      summary: "Instance {{ event.instance }} down"
      description: "{{ event.instance }} of job {{ event.job }} has been down for more than 5 minutes."
  - alert: MyAlert
    expr: >-
      SELECT job, window.end AS ts, avg(value) AS part FROM up
      GROUP BY job, window(ts, '1 minute') HAVING avg(value) < 0.75
    for: 2m
    keep_firing_for: 1m
    labels: {severity: page}
    annotations: {description: "Only {{ event.part }} of {{ event.job }} job is up"}
  - alert: Gone
    absent: 3m
    stream: up
    key: [instance]
    keep_firing_for: 0s
  - alert: NeverCame
    absent: 3m
    stream: up
    key: [instance]
    expected: instances
  - alert: Owned
    expr: SELECT u.ts, u.instance, o.team FROM up u JOIN owners o ON o.job = u.job WHERE u.value = 0
    key: [instance]
    keep_firing_for: 1m
    context:
      others: {sql: SELECT instance FROM up WHERE job = 'node', within: 1m}
    recall:
      norm: {sql: SELECT avg(h.value) AS mean FROM up h WHERE h.instance = event.instance, range: 7d}
    where: norm.mean > 0.4
  - alert: Slow
    expr: SELECT ts, job, instance, value FROM up WHERE value BETWEEN 2 AND 9
    key: [job, instance]
    keep_firing_for: 1m
    context:
      last: {sql: SELECT value FROM up WHERE instance = event.instance, within: 1m}
    recall:
      norm: {sql: SELECT avg(h.value) AS mean FROM up h WHERE h.instance = event.instance, range: 7d}
      alike: {similar: {k: 2}}
    then:
    - stream: ratios
      sql: SELECT n.mean, event.value / n.mean AS ratio FROM norm n
    - stream: shares
      sql: SELECT n.*, n.coverage, n.final, n.mean_low AS low, n.covered_to = event.ts AS all FROM norm n
    - stream: past
      sql: SELECT a.instance, a.value, r.ratio FROM alike a CROSS JOIN ratios r
    - stream: later
      sql: SELECT u.value FROM up u WHERE u.instance = event.instance AND u.ts > event.ts
      within: 1m
      analysis: present
"""
TESTS = """
tests:
- name: an instance that is down, and another
  input:
    up:
    - series: {job: prometheus, instance: "localhost:9090"}
      values: {value: "0x14"}
    - series: {job: node, instance: "localhost:9100"}
      values: {value: "1+0x6 0x1 1x3"}
  alert_rule_test:
  - {eval_time: 4m, alertname: InstanceDown}
  - eval_time: 4m
    alertname: example/InstanceDown
    exp_alerts: [{state: pending, exp_labels: {severity: page, job: prometheus, instance: "localhost:9090"}, exp_annotations: {summary: "Instance localhost:9090 down", description: "localhost:9090 of job prometheus has been down for more than 5 minutes."}}]
  - eval_time: 10m
    alertname: InstanceDown
    exp_alerts:
    - exp_labels: {severity: page, instance: "localhost:9090", job: prometheus}
      exp_annotations:
        summary: Instance localhost:9090 down
        description: localhost:9090 of job prometheus has been down for more than 5 minutes.
  - eval_time: 20m
    alertname: InstanceDown
    match: contains
    exp_alerts: [{state: resolved, exp_labels: {job: prometheus}}]
- name: a part of a job is up
  input:
    up:
    - {series: {job: node, instance: foo}, values: {value: 1+0x10}}
    - {series: {job: node, instance: bar}, values: {value: 1+0x5 0+0x5}}
    - {series: {job: prometheus, instance: foo}, values: {value: 1+0x10}}
  alert_rule_test:
  - {alertname: MyAlert, eval_time: 8m}
  - alertname: MyAlert
    eval_time: 9m
    exp_alerts:
    - exp_labels: {severity: page, job: node}
      exp_annotations: {description: Only 0.5 of node job is up}
- name: an instance that vanishes
  input:
    up: [{series: {job: node, instance: foo}, values: {value: 1x2}}]
  alert_rule_test:
  - {alertname: Gone, eval_time: 4m, exp_events: []}
  - alertname: Gone
    eval_time: 6m
    exp_events: [{ts: 5m, instance: foo}]
- name: an instance that never came
  input:
    up:
    - {series: {job: node, instance: a}, values: {value: 1x10}}
    - {series: {job: node, instance: b}, values: {value: 1x10}}
  relations: {instances: [{instance: a}, {instance: b}, {instance: c}]}
  alert_rule_test:
  - {alertname: NeverCame, eval_time: 2m30s, exp_events: []}
  - {alertname: NeverCame, eval_time: 4m, exp_events: [{ts: 3m, instance: c}]}
- name: history decides, and no row of the future
  start_timestamp: 1767225600
  input:
    up:
    - {series: {job: node, instance: good}, values: {value: 1x1 0 0 1x9}}
    - {series: {job: node, instance: bad}, values: {value: 0.1x1 0 1x10}}
  relations: {owners: [{job: node, team: red}]}
  alert_rule_test:
  - eval_time: 2m
    alertname: Owned
    exp_alerts: [{exp_labels: {instance: good}}]
    exp_events: [{ts: "2026-01-01T00:02:00Z", team: red}, {ts: 2m, instance: good}]
  - eval_time: 10m
    alertname: Owned
    event: {instance: bad}
    exp_contexts: {others: [{instance: bad}, {instance: bad}, {instance: good}, {instance: good}]}
    exp_recalls: {norm: [{mean: 0.1}]}
"""

MORE_TESTS = """
tests:
- name: similar events and stages of one event
  input:
    up:
    - {series: {job: a, instance: x}, values: {value: 1 3 1 1 4 1 1 3 1 1}}
  alert_rule_test:
  - eval_time: 8m
    alertname: Slow
    event: {ts: 7m}
    exp_similar:
      alike:
      - {rank: 1, ts: 1m, value: 3}
    exp_recalls: {norm: [{mean: 1.7142857}]}
    exp_stages:
      ratios: [{mean: 1.7142857, ratio: 1.75}]
      shares: [{mean: 1.7142857, coverage: 1, final: true, low: 1.7142857, all: true}]
      past: [{instance: x, value: 3, ratio: 1.75}]
      later: [{value: 1}]
    tolerance: 1e-6
- name: messages are grouped, routed and inhibited
  input:
    up:
    - {series: {job: node, instance: n}, values: {value: 1 0x5 1x20}}
    - {series: {job: web, instance: w}, values: {value: 3x6 1x20}}
    - {series: {job: node, instance: m}, values: {value: _x8 2 1x9}}
    - {ts: 13m, job: web, instance: n, value: 2}
  alert_rule_test:
  - eval_time: 20m
    alertname: InstanceDown
    exp_notifications:
    - {time: 390s, receiver: team, status: firing, group_labels: {alertname: InstanceDown}, exp_alerts: [{exp_labels: {severity: page, job: node, instance: n}}]}
  - eval_time: 20m
    alertname: Slow
    match: contains
    exp_notifications:
    - receiver: ops
      time: 1m
      exp_alerts: [{exp_labels: {job: web, instance: w}}]
    - {receiver: ops, time: 11m, status: resolved, exp_alerts: [{state: resolved, exp_labels: {instance: w}}]}
    - {receiver: team, time: 510s}
"""


def run(
    spark: SparkSession, folder: Path, tests: str, rules: str = RULES
) -> dict[str, list[UnmetExpectation]]:
    (folder / "rules" / "tests").mkdir(parents=True, exist_ok=True)
    (folder / "moirae.yaml").write_text(WORKSPACE)
    (folder / "rules" / "rules.yaml").write_text(rules)
    (folder / "rules" / "tests" / "t.yaml").write_text(tests)
    settings = load_settings(folder / "moirae.yaml", {})
    documents = read_test_files(settings, find_test_files(settings, []))
    results = RuleTestRun(settings, lambda: spark).run(documents)
    return {result.name: list(result.failures) for result in results}


def test_examples_of_prometheus_give_the_same_alerts(spark: SparkSession, tmp_path: Path) -> None:
    failures = run(spark, tmp_path, TESTS)
    assert list(failures.values()) == [[]] * 5


def test_similar_events_stages_and_messages_are_compared(
    spark: SparkSession, tmp_path: Path
) -> None:
    failures = run(spark, tmp_path, MORE_TESTS)
    assert failures == {name: [] for name in failures}


def test_range_until_previous_begins_at_the_alert_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = """
groups:
- name: g
  rules:
  - alert: Slow
    expr: SELECT ts, job, instance, value FROM up WHERE value > 2
    key: [instance]
    keep_firing_for: 1m
    recall:
      since: {sql: SELECT count(*) AS n FROM up u WHERE u.instance = event.instance, range: {until: previous}}
"""
    tests = """
tests:
- name: the rows since the last event of the alert before
  input:
    up:
    - {series: {job: a, instance: x}, values: {value: 1 1 3 3 1 1 1 1 3 1 1}}
    - {series: {job: a, instance: y}, values: {value: 1 1 1 1 1 3 1 1 1 1 1}}
  alert_rule_test:
  - {eval_time: 9m, alertname: Slow, event: {ts: 2m}, exp_recalls: {since: [{n: 2}]}}
  - {eval_time: 9m, alertname: Slow, event: {ts: 3m}, exp_recalls: {since: [{n: 3}]}}
  - {eval_time: 9m, alertname: Slow, event: {ts: 8m}, exp_recalls: {since: [{n: 4}]}}
"""
    assert list(run(spark, tmp_path, tests, rules).values()) == [[]]
    refused = rules + "    where: since.n > 1\n"
    with pytest.raises(Exception, match="where decides which alerts there are"):
        run(spark, tmp_path, tests, refused)


def test_differences_of_messages_and_stages_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    tests = """
tests:
- name: wrong
  input:
    up:
    - {series: {job: web, instance: w}, values: {value: 3x3 1x5}}
  alert_rule_test:
  - eval_time: 9m
    alertname: Slow
    exp_notifications: [{receiver: team, time: 1m}]
    exp_stages: {ratios: [], other: []}
    exp_similar: {alike: [{rank: 1}]}
"""
    similar, stages, unknown, messages = failures = run(spark, tmp_path, tests)["wrong"]
    assert [failure.lines for failure in failures] == [
        ["- {rank: 1}"],
        ["+ {mean: None, ratio: None}"],
        [],
        [
            "- 60s team",
            "+ 60s ops firing {}: firing {job: web, instance: w, alertname: Slow}",
            "+ 360s ops resolved {}: resolved {job: web, instance: w, alertname: Slow}",
        ],
    ]
    assert similar.message == "rows of alike of Slow at 9m differ (0 came)"
    assert stages.place.endswith("t.yaml:11:26")
    assert unknown.message == "Slow has no 'other'; its stages are ratios, shares, past, later"
    assert messages.message == "messages about alerts of Slow at 9m differ (2 came)"


def test_what_differs_is_shown_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    tests = """
tests:
- name: wrong
  input: {up: [{series: {job: a, instance: x}, values: {value: 0x9}}]}
  alert_rule_test:
  - {eval_time: 5m, alertname: InstanceDown}
  - eval_time: 1m
    alertname: InstanceDown
    exp_events:
    - {ts: 0m, instance: x}
    - {ts: 1m, instance: y}
- name: unknown
  alert_rule_test:
  - {eval_time: 5m, alertname: InstanceUp}
"""
    failures = run(spark, tmp_path, tests)
    alerts, events = failures["wrong"]
    assert alerts.place.endswith("t.yaml:6:5")
    assert alerts.message == "alerts of InstanceDown at 5m differ (1 came)"
    (line,) = alerts.lines
    assert line.startswith(
        "+ firing {job: a, instance: x, severity: page} {summary: Instance x down"
    )
    assert events.place.endswith("t.yaml:10:5")
    assert events.lines == [
        "- {ts: 1970-01-01T00:01:00+00:00, instance: y}",
        "+ {ts: 1970-01-01T00:01:00+00:00, job: a, instance: x}",
    ]
    (unknown,) = failures["unknown"]
    assert unknown.place.endswith("t.yaml:14:32")
    assert unknown.message.startswith("no such rule; rules are Gone, InstanceDown, MyAlert, ")


@pytest.mark.parametrize("seed", range(3))
def test_tests_that_share_a_query_are_as_if_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """All events, which none of the tests expects: rows of one test are not those of another."""
    draw = random.Random(seed)
    tests = "tests:\n" + "".join(draw_test(draw, number) for number in range(12))
    shared = run(spark, tmp_path, tests)
    with monkeypatch.context() as context:
        context.setattr(runner, "find_shared_events", lambda *arguments: {})
        alone = run(spark, tmp_path, tests)
    assert shared == alone
    assert any("no column 'worth'" in failure.message for failure in shared["test 7"])
    assert sum(len(failure.lines) for failures in shared.values() for failure in failures) > 12


def draw_test(draw: random.Random, number: int) -> str:
    """Series of instances, one row twice, and of a test a column that there is not."""
    values = [" ".join(draw.choices("0123_", k=10)) for _ in range(2)]
    column = "worth" if number == 7 else "value"
    return f"""
- name: test {number}
  start_timestamp: {draw.choice([0, 60, 1767225600])}
  interval: {draw.choice(["30s", "1m"])}
  input:
    up:
    - {{series: {{job: node, instance: a}}, values: {{{column}: {values[0]}}}}}
    - {{series: {{job: node, instance: b}}, values: {{value: {values[1]}}}}}
    - {{ts: 2m, job: node, instance: c, value: 0}}
    - {{ts: 2m, job: node, instance: c, value: {draw.choice([0, 2])}}}
  alert_rule_test:
  - {{eval_time: {draw.randrange(1, 10)}m, alertname: InstanceDown, exp_events: []}}
  - {{eval_time: 9m, alertname: Slow, exp_events: [], exp_alerts: []}}
  - {{eval_time: 9m, alertname: MyAlert, exp_events: []}}
"""


def test_shapes_of_promtool_are_understood(spark: SparkSession, tmp_path: Path) -> None:
    """No name, the name of the rule among the labels, empty lists, numbers that are not finite."""
    tests = """
tests:
- input:
    up:
    - series: {job: node, instance: a}
      values: {value: 0 0 0 0 0 0 NaN +Inf -Inf 0}
  alert_rule_test:
  - {eval_time: 0m, alertname: InstanceDown, exp_alerts: []}
  - eval_time: 5m
    alertname: InstanceDown
    match: contains
    exp_alerts: [{exp_labels: {alertname: InstanceDown, severity: page, job: node, instance: a}}]
- alert_rule_test:
  - eval_time: 5m
    alertname: InstanceDown
    exp_alerts:
"""
    assert run(spark, tmp_path, tests) == {"test 1": [], "test 2": []}


def test_rule_that_fails_on_its_rows_is_a_failure_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = """
groups:
- name: g
  rules:
  - alert: Plain
    expr: SELECT ts, job, instance FROM up WHERE 1 / value > 0.5
  - alert: Window
    expr: >-
      SELECT job, window.end AS ts, 1 / min(value) AS part FROM up GROUP BY job, window(ts, '1 minute')
    key: [job]
"""
    tests = """
tests:
- name: zero
  input: {up: [{series: {job: a, instance: b}, values: {value: "1 0 1"}}]}
  alert_rule_test:
  - {eval_time: 5m, alertname: Plain}
  - {eval_time: 5m, alertname: Window}
- name: one
  input: {up: [{series: {job: a, instance: b}, values: {value: "0.5"}}]}
  alert_rule_test:
  - {eval_time: 0, alertname: Plain, exp_alerts: [{exp_labels: {instance: b, job: a}}]}
"""
    zero, one = run(spark, tmp_path, tests, rules).values()
    assert [failure.message.partition(":")[0] for failure in zero] == [
        "g/Plain fails on its rows",
        "g/Window fails on its rows",
    ]
    assert "zero" in zero[0].message.lower() and zero[1].place.endswith(":7:32")
    assert one == []


def test_tests_of_a_new_workspace_pass(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    shutil.copytree(FIRST_EXAMPLE, folder)
    settings = load_settings(folder / "moirae.yaml", {})
    documents = read_test_files(settings, find_test_files(settings, []))
    test_run = RuleTestRun(settings, lambda: spark)
    assert [result.failures for result in test_run.run(documents)] == [[], []]
    missing = map(str, test_run.measure_coverage().missing)
    assert list(missing) == ["example/CpuHigh: where is false"]
