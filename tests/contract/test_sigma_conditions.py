"""Conditions of Sigma rules hold for the rows that pySigma's SQLite backend finds.

In the evaluator of compiled conditions, and in Spark.
"""

import re
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession
from sigma.backends.sqlite.sqlite import sqliteBackend
from sigma.collection import SigmaCollection
from sigma.rule import SigmaRule

from archiver.delta.schema import ARROW_TYPES
from moirae.errors import Undecided
from moirae.evaluation.index import RuleCompiler
from moirae.evaluation.index.text_columns import map_text
from moirae.sigma.conditions import SparkBackend
from moirae.sigma.fields import StreamFields
from recall.errors import SparkRequired
from recall.query.parsing import parse

COLUMNS = {"n": "int", "image": "string", "cmd": "string", "ip": "string", "user": "string"}
COLUMNS |= {"code": "int", "size": "double", "signed": "string"}
PLACEHOLDERS = {"admins": ("root", "adm*"), "one": ("alice",)}
KEYWORDS = ("cmd", "user")

IMAGES = ["C:\\Windows\\System32\\cmd.exe", "c:\\windows\\SYSTEM32\\CMD.EXE", "/usr/bin/bash", ""]
COMMANDS = [
    "cmd.exe /c whoami",
    "CMD -c WHOAMI",
    "powershell -enc SQBFAFgA",
    "find * -name %temp%_x",
    "find a -name %temp%-x",
    "a?b a*b [x] (y) 'z'",
    "line one\nline two",
    "ends with newline.exe\n",
    "dGhpcyBpcyBzZWNyZXQ=",
    "C:\\Temp\\\\x\\y.exe",
    "",
]
USERS = ["root", "Alice", "administrator", "c:\\windows\\system32\\cmd.exe", "4624", ""]
ADDRESSES = [
    "10.0.0.1",
    "10.128.0.1",
    "192.168.3.77",
    "172.16.0.300",
    "fe80::1",
    "::1",
    "0:0:0:0:0:0:0:1",
    "no address",
    "",
]


def make_rows() -> list[dict[str, Any]]:
    """Rows in which each column has all its values, and none."""
    rows = []
    for number in range(48):
        rows.append(
            {
                "n": number,
                "image": ([*IMAGES, None])[number % 5],
                "cmd": ([*COMMANDS, None])[number % 12],
                "user": ([*USERS, None])[number % 7],
                "ip": ([*ADDRESSES, None])[number % 10],
                "code": [None, 0, 1, 4624, -5, 7][number % 6],
                "size": [None, 0.0, 1.5, 100.0][number % 4],
                "signed": ["true", "FALSE", None, "1", "0"][number % 5],
            }
        )
    return rows


ROWS = make_rows()
# A detection without a condition is one selection.
DETECTIONS = [
    "image: 'C:\\Windows\\System32\\cmd.exe'",
    "image|cased: 'C:\\Windows\\System32\\cmd.exe'",
    "image|endswith: ['\\cmd.exe', '\\BASH', '/bash']",
    "image|endswith|cased: ['\\cmd.exe', '/bash']",
    "image|startswith: ['c:\\', '/USR']",
    "cmd|contains: ['whoami', 'TEMP']",
    "cmd|contains|all: ['whoami', '-c']",
    "cmd|contains|windash: ' -c '",
    "cmd|contains|cased: WHOAMI",
    "cmd: 'find \\* -name*'",
    "cmd: 'find ? -name *_x'",
    "cmd|contains: 'a\\?b'",
    "cmd|contains: '%temp%_x'",
    "cmd: '*.exe'",
    "cmd|re: 'line.two'",
    "cmd|re|s: 'line one.line two'",
    "cmd|re|i: '^cmd[. ]'",
    "cmd|re: '^line two$'",
    "cmd|re|m: '^line two$'",
    "cmd|re: '[[:digit:]x]\\]'",
    "cmd|re: 'a\\?b .{3} [[(]x'",
    "cmd|base64offset|contains: secret",
    "cmd|wide|base64offset|contains: IEX",
    "cmd|startswith: 'C:\\Temp\\\\\\\\x'",
    "cmd: ''",
    "cmd: null",
    "cmd: '*'",
    "cmd: '?*'",
    "{cmd: [null, ''], code: [4624, '7', -5]}",
    "code: 4624",
    "code: '4624'",
    "code: ['46*', 7]",
    "user: 4624",
    "code|gt: 0",
    "code|gte: 1",
    "size|lt: 1.5",
    "size|lte: 1.5",
    "size: 100",
    "signed: true",
    "signed: false",
    "ip|cidr: 10.0.0.0/9",
    "ip|cidr: ['192.168.0.0/22', '10.128.0.0/16', '10.0.0.1/32']",
    "user|exists: true",
    "user|exists: false",
    "user|expand: '%one%'",
    "user|expand: ['%admins%', 'x%one%']",
    "image|fieldref: user",
    "image|fieldref|endswith: user",
    "image|neq: /usr/bin/bash",
    "cmd|neq: [null, '']",
]
CONDITIONS = [
    {"a": {"image|endswith": "cmd.exe"}, "b": {"user": "root"}, "condition": "a and not b"},
    {"a": {"image|endswith": "cmd.exe"}, "b": {"user": "root"}, "condition": "not (a or b)"},
    {"a": {"image|endswith": "cmd.exe"}, "b": {"code": 1}, "condition": "not (a and not b)"},
    {"a": {"user": None}, "b": {"ip|cidr": "10.0.0.0/8"}, "condition": "not a and not b"},
    {"s_1": {"code": 1}, "s_2": {"code": 7}, "s_3": {"user": "alice"}, "condition": "1 of s_*"},
    {"s_1": {"code|gt": 1}, "s_2": {"user|contains": "o"}, "condition": "all of them"},
    {"s_1": {"code|gt": 1}, "f_1": {"user": "root"}, "f_2": {"cmd": None}, "condition": "s_1 and not 1 of f_*"},
    {"a": [{"user": "root", "code": 0}, {"user": "alice"}], "condition": "a"},
    {"a": {"user": "root"}, "b": {"code": 1}, "condition": ["a", "not b"]},
    {"a": ["whoami", "adm?n"], "condition": "a"},
    {"a": {"|all": ["cmd", "whoami"]}, "condition": "a"},
    {"a": [4624, "root"], "b": {"code": 1}, "condition": "a and not b"},
    {"a": ["whoami"], "condition": "not a"},
    {"a": {"cmd|contains": [f"x{number}" for number in range(60)] + ["WhoAmI"]}, "condition": "a"},
    {"a": {"image|endswith": [f"x{number}" for number in range(60)] + ["BASH"]}, "condition": "a"},
    {"a": {"image|startswith": [f"x{number}" for number in range(60)] + ["C:"]}, "condition": "not a"},
    {"a": {"cmd|re": [f"x{number}[.]y" for number in range(60)] + ["whoami"]}, "condition": "a"},
]  # fmt: skip


def make_rules() -> list[dict[str, Any]]:
    """The rules, as they would be read from files."""
    detections = [{"a": yaml.safe_load(text), "condition": "a"} for text in DETECTIONS]
    return [
        {"title": str(number), "logsource": {"category": "test"}, "detection": detection}
        for number, detection in enumerate([*detections, *CONDITIONS])
    ]


RULES = make_rules()


def spark_condition(rule: dict[str, Any]) -> str:
    """The condition that is imported."""
    fields = StreamFields(COLUMNS, (), KEYWORDS)
    return SparkBackend(fields, PLACEHOLDERS).convert_detection(SigmaRule.from_dict(rule))


@pytest.fixture(scope="module")
def expected() -> dict[str, set[int]]:
    """The rows that SQLite finds, by the title of the rule."""
    connection = sqlite3.connect(":memory:")
    connection.create_function("REGEXP", 2, _matches)
    kinds = {"string": "TEXT COLLATE NOCASE", "int": "INTEGER", "double": "REAL"}
    columns = [f"{name} {kinds[kind]}" for name, kind in COLUMNS.items()]
    connection.execute(f"CREATE TABLE logs ({', '.join(columns)}, fulltext TEXT COLLATE NOCASE)")
    for row in ROWS:
        values = [*row.values(), " | ".join(row[name] or "" for name in KEYWORDS)]
        names = [*row, "fulltext"]
        marks = ", ".join("?" * len(names))
        connection.execute(f"INSERT INTO logs ({', '.join(names)}) VALUES ({marks})", values)
    found_rows = {}
    for rule in RULES:
        collection = SigmaCollection.from_dicts([dict(rule)])
        from sigma.processing.pipeline import ProcessingItem, ProcessingPipeline
        from sigma.processing.transformations import ValueListPlaceholderTransformation

        pipeline = ProcessingPipeline(
            items=[ProcessingItem(ValueListPlaceholderTransformation())],
            vars={name: list(values) for name, values in PLACEHOLDERS.items()},
        )
        backend = sqliteBackend(pipeline, fulltext_field="fulltext")
        rows: set[int] = set()
        for query in backend.convert(collection):
            rows.update(row[0] for row in connection.execute(query))
        found_rows[rule["title"]] = rows
    return found_rows


def _matches(pattern: str, value: Any) -> bool:
    pattern = pattern.replace("[[:digit:]", "[0-9").replace("[[(]", "[(\\[]")
    return value is not None and re.search(pattern, str(value)) is not None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["detection"])[:60])
def test_compiled_condition_holds_for_the_rows_of_sqlite(
    rule: dict[str, Any], expected: dict[str, set[int]]
) -> None:
    compiler = RuleCompiler({"t": {"ts": "timestamp", **COLUMNS}})
    condition = spark_condition(rule)
    try:
        compiled = compiler.compile_filter(
            parse(f"SELECT n, ts FROM t WHERE {condition}"), {"n": "int"}
        )
    except SparkRequired as reason:
        pytest.skip(f"left to Spark: {reason}")
    found = set()
    for row in ROWS:
        values = []
        for column, case in compiler.layouts["t"].slots:
            value = row.get(column)
            values.append(map_text(value, case) if isinstance(value, str) else value)
        try:
            if compiled.holds(values):
                found.add(row["n"])
        except Undecided:
            pytest.skip("left to Spark for some rows")
    assert found == expected[rule["title"]], condition


@pytest.mark.slow
@pytest.mark.services
def test_condition_holds_in_spark_for_the_rows_of_sqlite(
    spark: SparkSession, expected: dict[str, set[int]]
) -> None:
    types = {"string": pa.string(), "int": pa.int32(), "double": pa.float64()}
    arrays = {
        name: pa.array([row[name] for row in ROWS], types[kind]) for name, kind in COLUMNS.items()
    }
    arrays["ts"] = pa.array(
        [datetime(2026, 1, 1, tzinfo=UTC)] * len(ROWS), ARROW_TYPES["timestamp"]
    )
    spark.createDataFrame(pa.table(arrays)).createOrReplaceTempView("sigma_rows")
    conditions = {rule["title"]: spark_condition(rule) for rule in RULES}
    columns = [f"({condition}) IS TRUE AS c{title}" for title, condition in conditions.items()]
    result = spark.sql(f"SELECT n, {', '.join(columns)} FROM sigma_rows").toArrow().to_pylist()
    for title, condition in conditions.items():
        found = {row["n"] for row in result if row[f"c{title}"]}
        assert found == expected[title], condition
