"""Rule files and SQL with arbitrary content: no crash, nothing harmful runs, errors have positions."""

import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import TokenType

from archiver.spark.session import jvm_process
from moirae.config.settings import Settings, load_settings
from moirae.documents.types import MAX_SQL_LENGTH, MAX_SQL_NESTING
from moirae.rules.checks.check import check_rules
from moirae.rules.parse import parse_rules
from recall.sandbox import time_limit, validation
from tests.examples import examples
from tests.progress import Progress

WORKSPACE = """
streams:
  events:
    columns: {id: bigint, ts: timestamp, host: string, msg: string, cpu: double}
    time: ts
    source: {files: landing/*.jsonl}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
"""
TABLE_NAMES = frozenset({"events", "hosts"})

# Dangerous words among harmless ones, in an order that is often grammatical.
_ATOMS = st.sampled_from(
    "id ts host msg cpu 1 0 -1 1e300 NULL TRUE 'a' '' '${env:PATH}' `host` e.host * window.end "
    "current_user "
    "INTERVAL'1'DAY DATE'2026-01-01' :p ? X'00' '\\u0000' 9999999999999999999999 {d'x'} @@x".split()
)
_FUNCTIONS = st.sampled_from(
    """
    abs upper concat count max array_sort sequence window explode from_json regexp_replace coalesce
    reflect java_method try_reflect rand uuid now current_timestamp input_file_name version
    raise_error xpath_string from_avro aes_encrypt session_window IDENTIFIER spark_partition_id
    monotonically_increasing_id
    """.split()
)


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.lists(inner, max_size=3).map(", ".join)
    return st.one_of(
        st.tuples(_FUNCTIONS, joined).map(lambda c: f"{c[0]}({c[1]})"),
        st.tuples(
            inner, st.sampled_from("+ - = <=> || AND OR RLIKE LIKE IN :: -> IS".split()), inner
        ).map(" ".join),
        st.tuples(inner, inner, inner).map(
            lambda c: f"CASE WHEN {c[0]} THEN {c[1]} ELSE {c[2]} END"
        ),
        inner.map(lambda expression: f"CAST({expression} AS INT)"),
        inner.map(lambda expression: f"(SELECT max({expression}) FROM events)"),
        inner.map(lambda expression: f"transform(array({expression}), x -> x)"),
        inner.map(lambda expression: f"{expression} OVER (PARTITION BY host ORDER BY ts)"),
        inner.map(lambda expression: f"IDENTIFIER({expression})"),
    )


EXPRESSIONS = st.recursive(_ATOMS, _calls, max_leaves=6)
_TABLES = st.sampled_from(
    """
events
events e
hosts
events e JOIN hosts h ON e.host = h.host
text.`/etc/hostname`
parquet.`/tmp`
range(10)
VALUES (1)
spark_catalog.default.owned
global_temp.x
events a, events b
IDENTIFIER('events')
(SELECT * FROM events)
events TABLESAMPLE (1 ROWS)
events LATERAL VIEW explode(array(1))
events VERSION AS OF 1
events PIVOT (max(cpu) FOR host IN ('a'))
information_schema.tables
    """.strip().splitlines()
)
_TAILS = st.sampled_from(
    """


 WHERE cpu > 3
 GROUP BY host
 GROUP BY host, window(ts, '1 minute')
 ORDER BY ts LIMIT 3
 UNION ALL SELECT * FROM events
 WINDOW w AS (PARTITION BY host)
; DROP VIEW events
 HAVING count(*) > 1
 |> LIMIT 1
 CLUSTER BY host
 WHERE EXISTS (SELECT 1 FROM hosts)
    """.splitlines()
)
_SELECTS = st.tuples(
    st.sampled_from(
        [
            "",
            "",
            "WITH c AS (SELECT * FROM events) ",
            "/*+ REPARTITION(9) */ ",
            "EXPLAIN ",
            "FROM events ",
        ]
    ),
    st.sampled_from(
        [
            "SELECT ",
            "SELECT ",
            "SELECT DISTINCT ",
            "SELECT /*+ BROADCAST(e) */ ",
            "SELECT TRANSFORM ",
        ]
    ),
    st.lists(EXPRESSIONS, min_size=1, max_size=3).map(", ".join),
    st.sampled_from([", ts FROM ", ", ts FROM ", " FROM "]),
    _TABLES,
    _TAILS,
).map("".join)
_COMMANDS = st.sampled_from(
    """
CREATE TABLE owned AS SELECT 1 AS a
DROP VIEW events
SET spark.sql.ansi.enabled = false
SHOW TABLES
EXECUTE IMMEDIATE 'CREATE TABLE owned USING parquet AS SELECT 1 AS a'
BEGIN SELECT 1; END
CACHE TABLE events
INSERT INTO events SELECT * FROM events
INSERT OVERWRITE LOCAL DIRECTORY 'owned' USING csv SELECT 1
MERGE INTO a USING b ON 1 = 1 WHEN MATCHED THEN DELETE
ADD JAR '/tmp/x.jar'
USE default
TRUNCATE TABLE events
CREATE FUNCTION f AS 'x.Y'
DECLARE VARIABLE v = 1
SET VAR v = 2
CALL p()
ANALYZE TABLE events COMPUTE STATISTICS
LOAD DATA INPATH 'x' INTO TABLE y
ALTER VIEW events AS SELECT 1
DESCRIBE events
REFRESH TABLE events
    """.strip().splitlines()
)
_DEEP_NESTING = st.tuples(
    st.sampled_from(["(", "abs(", "NOT ", "- ", "[", "CASE WHEN ", "1 + "]), st.integers(1, 3000)
).map(lambda nesting: f"SELECT {nesting[0] * nesting[1]}1, ts FROM events")
SQL = st.one_of(
    _SELECTS,
    _SELECTS,
    _COMMANDS,
    _DEEP_NESTING,
    st.text(max_size=60),
    _SELECTS.map(lambda s: s[: len(s) // 2]),
)

HARMFUL = frozenset(
    """
    reflect java_method try_reflect rand uuid now current_timestamp current_user input_file_name
    version raise_error xpath_string from_avro aes_encrypt identifier spark_partition_id
    monotonically_increasing_id text
    """.split()
)


def _words(sql: str) -> set[str]:
    return {
        token.text.lower()
        for token in Spark().tokenize(sql)
        if token.token_type is not TokenType.STRING
    }


def _file(sql: str) -> str:
    return (
        "groups:\n- name: g\n  rules:\n  - alert: Good\n    expr: SELECT host, ts FROM events\n"
        f"  - alert: Odd\n    expr: {json.dumps(sql)}\n    key: []\n"
    )


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    file = tmp_path_factory.mktemp("workspace") / "moirae.yaml"
    file.write_text(WORKSPACE)
    return load_settings(file, {})


def _check(spark: SparkSession, workspace: Settings, sql: str) -> None:
    rules, problems = parse_rules("rules.yaml", _file(sql), workspace.table_names)
    if problems:
        assert all("g/Odd" in problem.message and problem.line == 7 for problem in problems), (
            problems
        )
        return
    definitions, problems = check_rules(lambda: spark, workspace, rules)
    names = [definition.name for definition in definitions]
    assert names[0] == "g/Good"
    assert all(
        problem.file == "rules.yaml" and "g/Odd" in problem.message for problem in problems
    ), problems
    assert all(problem.line is not None and problem.line >= 7 for problem in problems), problems
    assert os.environ["PATH"] not in str(problems)
    if len(names) == 2:
        assert not _words(sql) & HARMFUL, sql
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert not spark.catalog.tableExists("owned")
    assert not Path("owned").exists()


@pytest.mark.services
@settings(max_examples=40)
@example(sql="SELECT id, ts FROM events |> LIMIT 1")
@given(sql=SQL)
def test_any_sql_is_accepted_or_rejected(
    spark: SparkSession, workspace: Settings, sql: str
) -> None:
    _check(spark, workspace, sql)


PROGRESS = Progress("texts", 250)


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=3000)
@given(sql=SQL)
def test_any_sql_is_accepted_or_rejected_at_length(
    spark: SparkSession, workspace: Settings, sql: str
) -> None:
    _check(spark, workspace, sql)
    PROGRESS.step()


_SCALARS = st.sampled_from(
    "x 5m 1 ~ true NO .nan .inf 12:30:45 0x10 1_000 '' '{{ event.x }}' !!str "
    "!!python/object:os.system &a *a <<: "
    "SELECT - ? | > % @ ` \u0085 \ufeff \u2028 2026-01-01 [] {} ,".split(" ")
)
_KEYS = st.sampled_from(
    """
    groups name rules alert expr derived stream key for labels context recall limit on ? << x
    """.split()
)
YAML = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(_KEYS, inner), max_size=4).map(
            lambda parts: "{" + ", ".join(f"{key}: {value}" for key, value in parts) + "}"
        ),
        st.lists(st.tuples(_KEYS, inner), min_size=1, max_size=4).map(
            lambda parts: "\n".join(f"{key}: {value}" for key, value in parts)
        ),
        inner.map(lambda text: "- " + text.replace("\n", "\n  ")),
        st.tuples(st.sampled_from("[{"), st.integers(1, 200)).map(
            lambda tower: tower[0] * tower[1]
        ),
    ),
    max_leaves=25,
)


def _read(text: str) -> None:
    rules, problems = parse_rules("r.yaml", text, TABLE_NAMES)
    assert rules.rules or rules.derived or problems
    lines = text.count("\n") + 2
    for problem in problems:
        assert problem.file == "r.yaml"
        assert problem.line is None or 1 <= problem.line <= lines
        assert len(problem.message) < 1000


@examples(300)
@given(
    text=st.one_of(
        YAML, st.text(max_size=200), st.binary(max_size=200).map(lambda raw: raw.decode("latin-1"))
    )
)
def test_any_rule_file_is_read_or_rejected(text: str) -> None:
    _read(text)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=20_000)
@given(text=st.one_of(YAML, st.text(max_size=400)))
def test_any_rule_file_is_read_or_rejected_at_length(text: str) -> None:
    _read(text)
    PROGRESS.step()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT "
            + "(" * (MAX_SQL_NESTING + 1)
            + "1"
            + ")" * (MAX_SQL_NESTING + 1)
            + " AS x, ts FROM events",
            "nested deeper",
        ),
        (
            "SELECT ts, '" + "x" * MAX_SQL_LENGTH + "' AS x FROM events",
            f"longer than {MAX_SQL_LENGTH} characters",
        ),
    ],
)
def test_too_large_queries_are_rejected(sql: str, message: str) -> None:
    _, (problem,) = parse_rules("rules.yaml", _file(sql), TABLE_NAMES)
    assert message in problem.message
    assert (problem.line, "g/Odd.expr" in problem.message) == (7, True)


@pytest.mark.services
def test_tables_of_derived_streams_are_counted_without_expansion(
    spark: SparkSession, workspace: Settings
) -> None:
    """Thirty derived streams, each of which reads the one before twice: a billion scans."""
    text = "groups:\n- name: g\n  derived:\n  - {stream: d0, expr: 'SELECT host, ts FROM events'}\n"
    for number in range(1, 30):
        read = f"SELECT host, ts FROM d{number - 1}"
        text += f"  - {{stream: d{number}, expr: '{read} UNION ALL {read}'}}\n"
    rules, problems = parse_rules("rules.yaml", text + "  rules: []\n", workspace.table_names)
    assert not problems
    _, problems = check_rules(lambda: spark, workspace, rules)
    assert (
        "reads 128 tables after expanding WITH and derived streams; the limit is 64"
        in problems[0].message
    )
    assert problems[0].line == 11


@pytest.mark.slow
@pytest.mark.services
@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_query_that_is_slow_to_analyse_is_rejected_and_its_thread_reniced(
    spark: SparkSession, workspace: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark evaluates the constant schema of from_json during analysis, here for some seconds."""
    monkeypatch.setattr(validation, "_CPU_LIMIT", 1.0)
    schema = "if(repeat('a', 62) RLIKE '(.*)(.*)(.*)(.*)(.*)[^a]b$', 'a INT', 'b INT')"
    rules, _ = parse_rules(
        "rules.yaml", _file(f"SELECT from_json(msg, {schema}) AS x, ts FROM events"), TABLE_NAMES
    )
    _, (problem,) = check_rules(lambda: spark, workspace, rules)
    assert "takes more than 1 s" in problem.message
    process = jvm_process()
    assert process is not None
    threads = [psutil.Process(thread.id) for thread in psutil.Process(process.pid).threads()]
    (thread,) = [thread for thread in threads if thread.name().startswith("sandbox ")]
    assert thread.nice() == 19
    deadline = time.monotonic() + 120
    while thread.is_running():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.services
@pytest.mark.skipif(sys.platform != "linux", reason="the CPU time of a thread is not known")
def test_query_that_waits_for_a_busy_machine_is_not_rejected(spark: SparkSession) -> None:
    assert time_limit.run_with_limit(lambda: time.sleep(0.5), spark, 0.2) is None
