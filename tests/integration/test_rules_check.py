"""The check of rules with Spark: valid rules, rejected rules, and positions of errors."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import moirae.rules.checks.check
from moirae.config.settings import Settings, load_settings
from moirae.errors import Problem
from moirae.rules.checks.check import check_rules
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from recall.errors import QueryRejected
from recall.sandbox import harden_session, validate_query
from tests.sampled import every

pytestmark = pytest.mark.services

WORKSPACE = """
streams:
  events:
    columns: {id: bigint, ts: timestamp, host: string, msg: string, cpu: double}
    time: ts
    source: {files: landing/*.jsonl}
  ping:
    columns: {at: timestamp, host: string, rtt: double}
    time: at
    source: {files: ping/*.jsonl}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
  pending: {columns: {host: string, owner: string}, key: [host], source: {file: pending.csv}}
"""

SOUND = {
    "filter": "SELECT host, ts, cpu FROM events WHERE cpu > 90",
    "star": "SELECT * FROM events WHERE cpu > 90",
    "other time": "SELECT host, at AS ts FROM ping WHERE rtt > 1",
    "relation": "SELECT e.host, e.ts, h.site FROM events e JOIN hosts h ON e.host = h.host",
    "left relation": "SELECT e.host, e.ts, h.site FROM events e LEFT JOIN hosts h ON e.host = h.host",
    "window": "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM events GROUP BY host, window(ts, '5 minutes')",
    "sliding": "SELECT window.start AS ts, count(*) AS n FROM events GROUP BY window(ts, '1 hour', '5 minutes')",
    "having": "SELECT host, max(ts) AS ts FROM events GROUP BY host, window(ts, '1 minute') HAVING count(*) > 3",
    "derived": "SELECT host, ts, cpu FROM load WHERE cpu > 50",
    "window over derived": "SELECT window.end AS ts, max(cpu) AS m FROM load GROUP BY window(ts, '1 hour')",
    "common table": "WITH hot AS (SELECT host, ts FROM events WHERE cpu > 9) SELECT host, ts FROM hot",
    "union": "SELECT host, ts FROM events UNION ALL SELECT host, at AS ts FROM ping",
    "text that looks like a variable": "SELECT host, ts, '${env:HOME}' AS x FROM events",
    "quotes": "SELECT host, ts, 'it''s' AS x FROM events WHERE msg <> \"a\"",
    "cast that may fail": "SELECT id, ts, CAST(msg AS INT) AS n FROM events",
    "case": "SELECT host, ts, CASE WHEN cpu > 9 THEN 'hot' ELSE 'cold' END AS temperature FROM events",
}

REFUSED = {
    "SELECT reflect('java.lang.System','getenv','PATH') AS x, ts FROM events": "not allowed",
    "SELECT ts, java_method('java.lang.System','getenv','PATH') AS x FROM events": "not allowed",
    "SELECT ts, IDENTIFIER('ref'||'lect')('java.lang.System','getProperty','user.home') AS x FROM events": "",
    "SELECT * FROM events WHERE msg = (SELECT max(value) FROM text.`/etc/hostname`)": "",
    "SELECT value, ts FROM text.`/etc/hostname`": "",
    "SELECT TRANSFORM(msg) USING 'touch owned; cat' AS (x STRING) FROM events": "",
    "INSERT OVERWRITE LOCAL DIRECTORY 'owned' USING csv SELECT * FROM events": "",
    "CREATE OR REPLACE TEMPORARY VIEW events USING text OPTIONS (path '/etc/hostname')": "",
    "EXECUTE IMMEDIATE 'CREATE TABLE owned USING parquet AS SELECT 1 AS a'": "",
    "SET spark.sql.ansi.enabled=false": "",
    "SELECT 1; DROP VIEW events": "single SELECT",
    "SELECT /*+ REPARTITION(100000) */ * FROM events": "",
    "SELECT count(*) AS n FROM events a CROSS JOIN events b CROSS JOIN events c": "",
    "SELECT ts, rand() AS x FROM events": "not deterministic",
    "SELECT ts, current_timestamp() AS x FROM events": "not allowed",
    "SELECT ts, uuid() AS x FROM events": "",
    "SELECT ts, input_file_name() AS x FROM events": "",
    "SELECT host, ts, cp FROM events": "unknown column 'cp'",
    "SELECT host FROM events": "AS ts",
    "SELECT host, CAST(ts AS STRING) AS ts FROM events": "ts must be",
    "SELECT host, count(*) AS n FROM events GROUP BY host": "window",
    "SELECT a.host, a.ts FROM events a JOIN ping p ON a.host = p.host": "must bound the time between its rows",
    "SELECT host, ts FROM events ORDER BY ts LIMIT 5": "LIMIT",
    "SELECT host, ts, lag(cpu) OVER (PARTITION BY host ORDER BY ts) AS l FROM events": "OVER",
    "SELECT host, ts FROM hosts": "stream",
    "SELECT ts, _late FROM events": "",
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    file = tmp_path_factory.mktemp("workspace") / "moirae.yaml"
    file.write_text(WORKSPACE)
    return load_settings(file, {})


def _check(
    spark: SparkSession, settings: Settings, sql: str
) -> tuple[list[Definition], list[Problem]]:
    indented = sql.replace("\n", "\n      ")
    text = (
        "groups:\n- name: g\n  derived:\n  - stream: load\n    expr: SELECT host, window.end AS ts, avg(cpu) AS cpu "
        "FROM events GROUP BY host, window(ts, '5 minutes')\n"
        f"  rules:\n  - alert: A\n    expr: |\n      {indented}\n"
    )
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    return check_rules(lambda: spark, settings, rules)


def test_relation_named_pending_is_not_hidden_by_views_of_the_check(
    spark: SparkSession, settings: Settings
) -> None:
    context = 'owner: {sql: "SELECT owner FROM pending WHERE host = event.host"}'
    text = ASKED.replace("    recall:\n", f"      {context}\n    recall:\n")
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    (definition,), check_problems = check_rules(lambda: spark, settings, rules)
    assert check_problems == []
    assert definition.result_columns["owner"] == {"owner": "string"}


@pytest.mark.parametrize("name", SOUND)
def test_valid_queries_pass(spark: SparkSession, settings: Settings, name: str) -> None:
    definitions, problems = _check(spark, settings, SOUND[name])
    assert problems == []
    assert len(definitions) == 1


@pytest.mark.parametrize("sql", every(2, REFUSED))
def test_forbidden_query_is_rejected_with_rule_and_position(
    spark: SparkSession, settings: Settings, sql: str
) -> None:
    definitions, problems = _check(spark, settings, sql)
    assert definitions == []
    (problem,) = problems
    assert problem.file == "rules.yaml"
    assert problem.line == 9
    assert "g/A" in problem.message
    assert REFUSED[sql] in problem.message
    assert not Path("owned").exists()
    assert not spark.catalog.tableExists("owned")


def test_position_of_an_error_is_inside_the_query(spark: SparkSession, settings: Settings) -> None:
    _, (problem,) = _check(spark, settings, "SELECT host, ts\nFROM events\nWHERE cpux > 3")
    assert (problem.line, problem.column) == (11, 13)
    assert "cpu" in problem.message


def test_key_and_id_must_be_columns_of_the_result(spark: SparkSession, settings: Settings) -> None:
    text = (
        "groups:\n- name: g\n  rules:\n"
        "  - {alert: A, expr: 'SELECT host, ts FROM events', key: [hots]}\n"
        "  - {alert: B, expr: 'SELECT host, ts, msg, cpu FROM events'}\n"
        "  - {alert: C, absent: 5m, stream: ping, key: [host]}\n"
    )
    rules, _ = parse_rules("rules.yaml", text, settings.table_names)
    definitions, (problem,) = check_rules(lambda: spark, settings, rules)
    assert "hots" in problem.message
    assert problem.line == 4
    assert {d.name: (d.key, d.id) for d in definitions} == {
        "g/B": (("host", "msg"), ("host", "msg")),
        "g/C": (("host",), ("host",)),
    }


def test_java_exception_during_analysis_rejects_the_rule(spark: SparkSession) -> None:
    session = harden_session(spark.newSession())
    nothing: Any = None  # the parser throws a NullPointerException
    with pytest.raises(QueryRejected, match="NullPointerException"):
        validate_query(session, nothing)


def test_internal_error_of_the_check_rejects_one_rule(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = moirae.rules.checks.check.check_questions

    def faulty(session: Any, settings: Settings, definition: Definition, tables: Any) -> Any:
        assert definition.name != "g/A", "an unexpected error"
        return real(session, settings, definition, tables)

    monkeypatch.setattr(moirae.rules.checks.check, "check_questions", faulty)
    both = ASKED + "  - alert: B\n    expr: SELECT host, ts FROM events\n"
    rules, _ = parse_rules("rules.yaml", both, settings.table_names)
    definitions, (problem,) = check_rules(lambda: spark, settings, rules)
    assert [definition.name for definition in definitions] == ["g/B"]
    assert (problem.file, problem.line) == ("rules.yaml", 5)
    assert (
        "g/A: internal error while checking the rule: AssertionError: an unexpected"
        in problem.message
    )


ASKED = """
groups:
- name: g
  rules:
  - alert: A
    expr: SELECT host, ts, cpu FROM events WHERE cpu > 90
    key: [host]
    context:
      seen: {within: 5m, sql: "SELECT DISTINCT msg FROM events WHERE host = event.host"}
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean, count(*) AS n FROM events h WHERE h.host = event.host"}
      similar: {similar: {k: 3}}
    where: event.cpu > norm.mean
"""


def test_rule_with_recalls_passes_with_types_of_their_answers(
    spark: SparkSession, settings: Settings
) -> None:
    rules, problems = parse_rules("rules.yaml", ASKED, settings.table_names)
    assert not problems
    (definition,), check_problems = check_rules(lambda: spark, settings, rules)
    assert check_problems == []
    assert definition.result_columns["seen"] == {"msg": "string"}
    assert definition.result_columns["norm"] == {"mean": "double", "n": "bigint"}
    assert Definition.from_json(definition.to_json()) == definition


@pytest.mark.parametrize(
    ("old", "new", "message"),
    every(
        2,
        [
            ("within: 5m, sql", "sql", "missing key 'within'"),
            ("DISTINCT msg", "DISTINCT mgs", "mgs"),
            ('= event.host"}\n    recall', '= event.hots"}\n    recall', "no attribute 'hots'"),
            ("DISTINCT msg", "reflect('java.lang.System') AS x", ""),
            ("avg(h.cpu) AS mean", "first(h.cpu) AS mean", "use min_by(x, ts)"),
            ("avg(h.cpu) AS mean", "rand() AS mean", ""),
            (
                'FROM events h WHERE h.host = event.host"}',
                'FROM events h JOIN ping p ON p.host = h.host", order: mixed}',
                "order mixed reads chunks apart from each other: a join of streams",
            ),
            ("FROM events h WHERE", "FROM events h JOIN ping p ON p.host = h.hots WHERE", "hots"),
            (
                'FROM events h WHERE h.host = event.host"}',
                'FROM events h WHERE h.cpu > 1", order: extreme, extreme: host}',
                "'host' is not a number or time of stream events; available: cpu, id, ts",
            ),
            (
                'FROM events h WHERE h.host = event.host"}',
                'FROM hosts h WHERE h.host = event.host", order: extreme, extreme: cpu}',
                "",
            ),
            ("{k: 3}", "{k: 3, measure: best}", "unknown measure"),
            ("event.cpu > norm.mean", "event.cpu > norm.median", "median"),
            ("event.cpu > norm.mean", "event.cpu + norm.mean", "condition"),
            ("event.cpu > norm.mean", "event.cpu > 95", "move conditions on the event to expr"),
            ("event.cpu > norm.mean", "similar.score > 0.5", "SQL recalls"),
            ("event.cpu > norm.mean", "event.cpu > (norm.mean", "SQL syntax"),
            ("event.cpu > norm.mean", "norm.mean > 1; SELECT 1", "single SELECT"),
        ],
    ),
)
def test_invalid_recall_is_rejected_with_rule_and_position(
    spark: SparkSession, settings: Settings, old: str, new: str, message: str
) -> None:
    assert old in ASKED
    text = ASKED.replace(old, new, 1)
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    definitions, check_problems = check_rules(lambda: spark, settings, rules)
    assert definitions == []
    changed = text[: text.index(new)].count("\n") + 1
    assert any(
        problem.line in (changed, changed + 1) and "g/A" in problem.message
        for problem in check_problems
    ), check_problems
    assert message in check_problems[0].message


@pytest.mark.parametrize(
    "sql",
    every(
        3,
        [
            "SELECT avg(h.cpu) AS mean, count(*) AS n FROM events h JOIN ping p ON p.host = h.host",
            "SELECT max(x.m) AS mean, count(*) AS n FROM (SELECT msg, avg(cpu) AS m FROM events "
            "WHERE host = event.host GROUP BY msg) x",
            "SELECT cpu - lag(cpu) OVER (ORDER BY ts) AS mean, rank() OVER (ORDER BY ts) AS n "
            "FROM events ORDER BY n LIMIT 3",
            "SELECT cpu AS mean, 1 AS n FROM events UNION SELECT rtt, 2 FROM ping ORDER BY n LIMIT 3",
            "SELECT * FROM (SELECT cpu AS mean, count(*) AS n FROM events GROUP BY cpu LIMIT 5) x "
            "WHERE n > 1",
            "SELECT avg(h.cpu) AS mean, count(*) AS n FROM events h WHERE EXISTS (SELECT 1 FROM ping p "
            "WHERE p.host = h.host AND p.rtt > h.cpu)",
            "SELECT avg(h.cpu) AS mean, count(*) AS n FROM events h WHERE h.host IN "
            "(SELECT host FROM hosts)",
        ],
    ),
)
def test_recall_that_needs_all_rows_passes(
    spark: SparkSession, settings: Settings, sql: str
) -> None:
    norm = "SELECT avg(h.cpu) AS mean, count(*) AS n FROM events h WHERE h.host = event.host"
    assert norm in ASKED
    rules, problems = parse_rules("rules.yaml", ASKED.replace(norm, sql), settings.table_names)
    assert not problems
    (definition,), check_problems = check_rules(lambda: spark, settings, rules)
    assert check_problems == []
    assert list(definition.result_columns["norm"]) == ["mean", "n"]


STAGE_RULE = """groups:
- name: g
  rules:
  - alert: A
    expr: SELECT host, ts, cpu FROM events WHERE cpu > 90
    key: [host]
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean FROM events h WHERE h.host = event.host"}
    then:
"""


@pytest.mark.parametrize(
    ("stages", "message"),
    every(
        2,
        [
            (
                [
                    "{stream: a, sql: SELECT b.mean FROM b}",
                    "{stream: b, sql: SELECT a.mean FROM a}",
                ],
                "stages read each other in a cycle",
            ),
            (
                ["{stream: a, sql: SELECT p.rtt FROM norm n JOIN ping p ON p.host = n.host}"],
                "missing key 'within': the query reads stream ping",
            ),
            (
                ["{stream: a, sql: SELECT n.mean FROM norm n, analysis: present}"],
                "analysis: present has no effect",
            ),
            (["{stream: a, sql: SELECT n.men FROM norm n}"], "unknown column"),
            (["{stream: a, sql: SELECT rand() AS x FROM norm n}"], "not deterministic"),
        ],
    ),
)
def test_stage_with_an_error_is_rejected(
    spark: SparkSession, settings: Settings, stages: list[str], message: str
) -> None:
    text = STAGE_RULE + "".join(f"    - {stage}\n" for stage in stages)
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    definitions, problems = check_rules(lambda: spark, settings, rules)
    assert definitions == []
    assert message in str(problems[0])


def test_columns_of_stages_follow_from_those_that_they_read(
    spark: SparkSession, settings: Settings
) -> None:
    """In any order; rows of recalls and stages carry the key of the event."""
    text = STAGE_RULE + (
        "    - {stream: b, sql: SELECT max(a.mean) AS top FROM a}\n"
        "    - {stream: a, sql: 'SELECT n.host, n.mean, p.rtt FROM norm n JOIN ping p"
        " ON p.host = n.host', within: 1m}\n"
    )
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    (definition,), problems = check_rules(lambda: spark, settings, rules)
    assert not problems
    assert definition.result_columns["a"] == {"host": "string", "mean": "double", "rtt": "double"}
    assert definition.result_columns["b"] == {"top": "double"}


def _fail_to_start() -> SparkSession:
    raise AssertionError("the rules have stored verdicts: Spark is not needed")


def test_stored_verdicts_need_no_spark(spark: SparkSession, settings: Settings) -> None:
    rules, _ = parse_rules("rules.yaml", ASKED, settings.table_names)
    checked, problems = check_rules(lambda: spark, settings, rules)
    assert checked and problems == []
    assert check_rules(_fail_to_start, settings, rules) == (checked, [])


def test_rule_has_another_verdict_after_a_change_of_its_derived_stream(
    spark: SparkSession, settings: Settings
) -> None:
    text = (
        "groups:\n- name: g\n  derived:\n  - stream: load\n    expr: {}\n"
        "  rules:\n  - alert: A\n    expr: SELECT ts, host FROM load WHERE cpu > 7\n"
    )
    first = text.format("SELECT ts, host, cpu FROM events")
    rules, _ = parse_rules("rules.yaml", first, settings.table_names)
    assert check_rules(lambda: spark, settings, rules)[1] == []
    assert check_rules(_fail_to_start, settings, rules)[1] == []
    second = text.format("SELECT ts, host FROM events")
    rules, _ = parse_rules("rules.yaml", second, settings.table_names)
    (problem,) = check_rules(lambda: spark, settings, rules)[1]
    assert "unknown column 'cpu'" in problem.message
