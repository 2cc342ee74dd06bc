"""Values of a parameter in one pass, with Spark: each does what a back-test of it alone does."""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.times import to_micros
from moirae.backtest.archive import BacktestArchive
from moirae.backtest.reports.incidents import KnownIncident
from moirae.backtest.run import Backtest, evaluate_together, plan_backtest, plan_together
from moirae.backtest.tuning.variants import check_variants, report_value
from moirae.config.settings import Settings, load_settings
from moirae.config.table_schemas import stream_schema
from moirae.evaluation.plan import ActiveRule
from moirae.history.finder import PastFinder, RelationVersions
from moirae.rule_tests.scratch_archive import write_archive
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules
from moirae.rules.rule_set import Rule
from tests.property.world import START

pytestmark = pytest.mark.slow

WORKSPACE = """
streams:
  cpu:
    columns: {ts: timestamp, host: string, v: double}
    time: ts
    key: [host]
    source: {files: cpu/*.jsonl}
"""
RULES = """
groups:
- name: g
  rules:
  - alert: High
    parameters: {high: 90, unusual: 1.5, span: 5 minutes}
    expr: >-
      SELECT host, window.end AS ts, max(v) AS v FROM cpu
      GROUP BY host, window(ts, :span) HAVING max(v) > :high
    keep_firing_for: 10m
    recall:
      norm: {sql: SELECT avg(h.v) AS mean FROM cpu h WHERE h.host = event.host, range: 1d, stream: norms}
    where: norm.mean IS NULL OR event.v > norm.mean * :unusual
"""
DAYS = 3


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "moirae.yaml").write_text(WORKSPACE)
    return load_settings(folder / "moirae.yaml", {})


@pytest.fixture(scope="module")
def rule(spark: SparkSession, settings: Settings) -> Rule:
    rules, problems = parse_rules("r.yaml", RULES)
    assert not problems
    (definition,), _ = check_rules(lambda: spark, settings, rules)
    return definition.rule


@pytest.fixture(scope="module")
def archive(
    spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> BacktestArchive:
    schema = stream_schema("cpu", settings.streams["cpu"])
    draw = random.Random(7)
    columns: dict[str, list[Any]] = {"ts": [], "host": [], "v": []}
    for minute in range(DAYS * 24 * 60):
        columns["ts"].append(START + timedelta(minutes=minute))
        columns["host"].append(f"h{minute % 3}")
        columns["v"].append(draw.expovariate(1 / 20))
    columns["_extra"] = [None] * len(columns["ts"])
    table = pa.table(columns, schema=schema.arrow_schema().empty_table().select([*columns]).schema)
    reader = write_archive(tmp_path_factory.mktemp("archive"), [schema], {"cpu": table})
    relations = RelationVersions({}.__getitem__, frozenset())
    finder = PastFinder(spark.newSession(), reader, relations)
    return BacktestArchive.create(finder, reader, {"cpu": to_micros(START + timedelta(days=DAYS))})


def plan(rules: list[ActiveRule], archive: BacktestArchive) -> list[Backtest]:
    ranges = [plan_backtest(rule, archive, lambda newest: 0, None) for rule in rules]
    tested = plan_together([item for item in ranges if item is not None])
    assert tested is not None
    return [Backtest(rule, archive, tested) for rule in rules]


@pytest.mark.parametrize(
    "variants",
    [
        [{"high": 60}, {"high": 90}, {"high": 120.5}],
        [{"unusual": 1}, {"unusual": 8}],
        [{"span": "5 minutes"}, {"span": "1 hour"}],
    ],
)
def test_each_value_does_what_a_backtest_of_it_does(
    spark: SparkSession,
    settings: Settings,
    rule: Rule,
    archive: BacktestArchive,
    variants: list[Mapping[str, Any]],
) -> None:
    rules = check_variants(lambda: spark, settings, rule, variants)
    together = plan(rules, archive)
    for _ in evaluate_together(together):
        pass
    counts: list[int] = []
    for number, test in enumerate(together):
        (alone,) = plan([rules[number]], archive)
        alone.range = test.range
        for _ in alone.evaluate():
            pass
        assert test.list_alerts() == alone.list_alerts() != []
        counts.append(sum(alert.is_shown for alert in test.list_alerts()))
    assert counts == sorted(set(counts), reverse=True)


def test_report_counts_incidents_and_marks_the_current_values(
    spark: SparkSession, settings: Settings, rule: Rule, archive: BacktestArchive
) -> None:
    (active,) = check_variants(lambda: spark, settings, rule, [{"high": 90}])
    (test,) = plan([active], archive)
    for _ in test.evaluate():
        pass
    alerts = [alert for alert in test.list_alerts() if alert.is_shown]
    end = START + timedelta(days=DAYS)
    incidents = [
        KnownIncident("a", alerts[0].starts_at, end, {"host": alerts[0].labels["host"]}),
        KnownIncident("b", START - timedelta(days=2), START - timedelta(days=1), {}),
    ]
    report = report_value(test, {"high": 90}, True, (START, end), incidents)
    assert (report.alerts, report.alerts_per_day) == (len(alerts), len(alerts) / DAYS)
    assert (report.caught, report.missed, report.delay) == (["a"], ["b"], 0.0)


def test_value_that_is_not_valid_is_reported_at_the_rule(
    spark: SparkSession, settings: Settings, rule: Rule
) -> None:
    with pytest.raises(Exception, match=r"r\.yaml:9:22: .*'5 parsecs'"):
        check_variants(lambda: spark, settings, rule, [{"span": "5 parsecs"}])
