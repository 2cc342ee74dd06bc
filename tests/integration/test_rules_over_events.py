"""Rules, contexts and recalls that read the events of other rules: names, refusals, versions."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moirae.config.settings import Settings
from moirae.deployments.check import check_rule_files
from moirae.errors import ProblemsError
from moirae.evaluation.plan import ActiveRule
from moirae.queries.prepare import QueryOptions, prepare_query
from moirae.rules.checks.check import check_rules
from moirae.rules.checks.stored_rules import RuleAdmission
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from recall.query import Unsupported
from recall.requests import SqlQuestion
from tests.property.world import workspace

pytestmark = pytest.mark.services

RULES = """
groups:
- name: g
  derived:
  - {stream: hot, expr: "SELECT ts, host, n FROM events.High WHERE n > 3"}
  - {stream: unread, expr: "SELECT ts, host FROM events.`f/Third` t"}
  rules:
  - alert: High
    expr: SELECT host, n, ts, v FROM a WHERE v > 70
    key: [host]
    id: [host, n]
    context:
      others: {sql: SELECT o.n FROM events.Many o WHERE o.host = event.host, within: 10m}
      own: {sql: SELECT n FROM events.High h WHERE h.host = event.host, within: 10m}
    recall:
      before: {sql: SELECT count(*) AS n FROM events.Many m WHERE m.host = event.host, range: 1h}
  - alert: Many
    expr: SELECT host, window.end AS ts, count(*) AS n FROM events.high GROUP BY host, window(ts, '1 minute')
    context:
      high: {sql: SELECT n FROM events.High h WHERE h.host = event.host, within: 1m}
  - alert: Derived
    expr: SELECT h.host, h.ts FROM hot h
  - {alert: Calm, absent: 5m, stream: hot, key: [host]}
- name: f
  rules:
  - alert: Many
    expr: SELECT host, ts, n FROM events.`g/Many` WHERE n > 2
  - alert: Third
    expr: SELECT ts, host, Many.n FROM events.Many
"""


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    return workspace(public_folder)


def check(spark: SparkSession, settings: Settings, text: str) -> tuple[list[Definition], list[str]]:
    rules, problems = parse_rules("r.yaml", text, settings.table_names)
    assert not problems, problems
    definitions, found = check_rules(lambda: spark, settings, rules)
    return definitions, [str(problem) for problem in found if problem.severity == "error"]


def test_names_stand_for_rules_of_the_group_then_of_all_groups(
    spark: SparkSession, settings: Settings
) -> None:
    definitions, problems = check(spark, settings, RULES)
    assert not problems
    by_name = {definition.name: definition for definition in definitions}
    read = {
        name: {stream.name: stream.rule for stream in definition.rule.event_streams}
        for name, definition in by_name.items()
    }
    assert read["f/Many"] == {"events.g/many": "g/Many", "events.g/high": "g/High"}
    assert read["f/Third"]["events.many"] == "f/Many"
    assert read["g/High"]["events.many"] == "g/Many"
    assert by_name["f/Third"].types == {"host": "string", "n": "bigint"}
    assert by_name["g/High"].result_columns["before"] == {"n": "bigint"}
    # What is stored is what runs, and passes the check alone.
    restored = [Definition.from_json(json.loads(json.dumps(d.to_json()))) for d in definitions]
    assert [d.version for d in restored] == [d.version for d in definitions]
    admitted, refused = RuleAdmission(lambda: spark, settings).admit(restored)
    assert (len(admitted), refused) == (6, {})
    third = ActiveRule.of_workspace(restored[-1], settings)
    assert (third.shape.streams, third.shape.reach) == ({"a"}, 60_000_000)


def test_a_version_follows_the_events_that_are_read(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    before, _ = check(spark, settings, RULES)
    after, _ = check(spark, settings, RULES.replace("v > 70", "v > 80"))
    changed = {a.name for a, b in zip(after, before, strict=True) if a.version != b.version}
    assert changed == {"g/High", "g/Many", "g/Derived", "g/Calm", "f/Many", "f/Third"}
    after, _ = check(spark, settings, RULES.replace("WHERE n > 2", "WHERE n > 5"))
    changed = {a.name for a, b in zip(after, before, strict=True) if a.version != b.version}
    assert changed == {"f/Many", "f/Third"}
    # Files are checked anew with the rules that are applied.
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    applied, _ = check_rule_files(lambda: spark, settings, [path])
    path.write_text(RULES.replace("v > 70", "v > 80"))
    again, _ = check_rule_files(lambda: spark, settings, [path], applied)
    assert {a.name for a, b in zip(again, applied, strict=True) if a.version != b.version} == {
        definition.name for definition in applied
    }
    path.write_text(RULES.replace("v > 70", "v > nothing"))
    with pytest.raises(ProblemsError, match="nothing"):
        check_rule_files(lambda: spark, settings, [path], applied)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "ts, v FROM a WHERE v > 70",
            "ts, 1 AS v FROM events.`f/Third`",
            "g/High: cycle: g/High → events.f/third → f/Third → events.many → f/Many → "
            "events.g/many → g/Many → events.high → g/High; a rule must not read",
        ),
        ("events.`g/Many` WHERE", "events.Nothing WHERE", "events.nothing: there is no rule"),
        (
            "- name: f\n",
            '  - {alert: Own, expr: "SELECT ts, host FROM events.Own"}\n- name: f\n',
            "g/Own: cycle: g/Own → events.own → g/Own",
        ),
        (
            "- name: f\n",
            '- name: e\n  rules:\n  - {alert: E, expr: "SELECT ts, host FROM events.Many"}\n- name: f\n',
            "several rules have this name (f/Many, g/Many); write events.`GROUP/NAME`",
        ),
        ("Many.n FROM", "Many.nothing FROM", "nothing"),
        ('`f/Third` t"', '`f/Third` t", archive: true', "which are not archived by themselves"),
        ("AS n FROM events.high", "AS n FROM events.high WHERE v > nothing", "g/Many has errors"),
    ],
)
def test_refused_readers_are_named(
    spark: SparkSession, settings: Settings, old: str, new: str, problem: str
) -> None:
    assert old in RULES
    _, found = check(spark, settings, RULES.replace(old, new))
    assert any(problem in text for text in found), found


def test_ad_hoc_queries_read_events(spark: SparkSession, settings: Settings) -> None:
    definitions, _ = check(spark, settings, RULES)

    def prepare(text: str) -> SqlQuestion:
        options = QueryOptions(limit=10)
        return prepare_query(text, settings, definitions, options, spark.newSession)

    question = prepare("SELECT host, count(*) AS c FROM events.Third GROUP BY host")
    assert question.columns == {"host": "string", "c": "bigint"}
    assert {"events.third", "events.f/many", "events.g/many"} <= question.derived.keys()
    with pytest.raises(Unsupported, match=r"several rules have this name \(f/Many, g/Many\)"):
        prepare("SELECT host FROM events.Many")


def test_recalls_read_alerts(spark: SparkSession, settings: Settings) -> None:
    text = RULES.replace("FROM events.Many m WHERE m.host", "FROM alerts m WHERE m.rule")
    _, found = check(spark, settings, text)
    assert found == []


def test_ad_hoc_queries_read_alerts(spark: SparkSession, settings: Settings) -> None:
    text = "SELECT rule, labels['site'] AS site, count(*) AS n FROM alerts GROUP BY ALL"
    question = prepare_query(text, settings, [], QueryOptions(limit=10), spark.newSession)
    assert question.columns == {"rule": "string", "site": "string", "n": "bigint"}
    assert question.relations == ("alerts",) and not question.streams
