"""Adversarial inputs (tests/bad_inputs.py), each with the side effects that it aims at.

Their rules have the shape {name, sql}; `_as_expr` and `_as_rule_file` convert them to rules,
`COMMANDS` converts their command lines. Three are valid rules that misbehave when they run:
tests/integration/test_bad_rules.py, tests/faults/test_rule_bombs.py. The evaluation and output of
such events is tested in tests/e2e/test_odd_values.py and tests/unit/moirae/runtime/test_logs.py,
the lines for the HTTP API with the server.
"""

import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

import sql
from archiver.chunks.chunk import CutPolicy
from archiver.delta.schema import StreamSchema
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import to_micros
from moirae.cli.export import format_csv_cell
from moirae.config.settings import Settings, load_settings, load_settings_from_environment
from moirae.errors import Problem
from moirae.rules.checks.check import check_rules
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules
from moirae.runtime import database
from sql.archive import DeadLetterGateway, UnitGateway
from tests.bad_inputs import FILES, read, read_all
from tests.sampled import every
from tests.workspaces import workspace

pytestmark = pytest.mark.services

SECRET = "not-to-be-seen-8f3a"
WORKSPACE = """
streams:
  events:
    columns: {id: bigint, ts: timestamp, host: string, msg: string, f: string}
    time: ts
    source: {files: landing/*.jsonl}
"""
# What may be deployed, and is held back when it runs (or, for the text of a variable, does
# nothing).
MISBEHAVES = ("size(sequence", "RLIKE '(.*)", "CAST(msg AS INT)", "${env:PGPASSWORD}")


def _as_expr(sql: str) -> str:
    """Here every row of an event query has a time: without it a query would be refused for that
    alone.
    """
    return (
        sql if "*" in sql.split(" FROM ")[0] else sql.replace(" FROM events", ", ts FROM events", 1)
    )


def _as_rule_file(text: str) -> str:
    """{name, sql, …} as a rule: `name` is `alert`, `sql` is `expr`; keys of numbers and times that
    we do have.
    """
    if not text:
        return text
    for theirs, ours in {
        "name": "alert",
        "sql": "expr",
        "window": "for",
        "threshold": "limit",
    }.items():
        text = text.replace(f"{theirs}: ", f"{ours}: ")
    body = text.replace("treshold: ", "limt: ").splitlines()
    first = next((line for line in body if line.startswith("alert: ")), body[0])
    rest = [line for at, line in enumerate(body) if at != body.index(first)]
    return "groups:\n- name: g\n  rules:\n  - " + "\n    ".join([first, *rest]) + "\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    file = tmp_path_factory.mktemp("workspace") / "moirae.yaml"
    file.write_text(WORKSPACE)
    return load_settings(file, {})


@pytest.fixture(autouse=True)
def unharmed(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> Any:
    """A place where every side effect would show, looked at afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("PGPASSWORD", SECRET)
    spark.createDataFrame([(1,)], "untouched int").createOrReplaceTempView("events")
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    tables = sorted(table.name for table in spark.catalog.listTables())
    yield
    assert spark.table("events").collect() == [(1,)]
    spark.catalog.dropTempView("events")
    assert spark.conf.get("spark.sql.ansi.enabled") == ansi
    assert sorted([*(table.name for table in spark.catalog.listTables()), "events"]) == tables
    assert not spark.catalog.tableExists("owned")
    assert list(tmp_path.rglob("*owned*")) == []
    assert list((tmp_path / "scratch").iterdir()) == []
    written = "".join(capfd.readouterr())
    assert SECRET not in written
    assert os.environ["PATH"] not in written


def _check(
    spark: SparkSession, settings: Settings, queries: Sequence[str]
) -> tuple[list[Definition], list[Problem]]:
    """Check a good rule, and rules Bad0, Bad1 … from line 6 on, two lines for each."""
    text = "groups:\n- name: g\n  rules:\n  - alert: Good\n    expr: SELECT host, ts FROM events\n"
    for number, query in enumerate(queries):
        text += f"  - alert: Bad{number}\n    expr: {json.dumps(query, ensure_ascii=False)}\n"
    rules, problems = parse_rules("rules.yaml", text, settings.table_names)
    assert not problems
    return check_rules(lambda: spark, settings, rules)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_malicious_sql_is_rejected(spark: SparkSession, settings: Settings, step: int) -> None:
    queries = [s for s in read_all("rule_sql") if not any(part in s for part in MISBEHAVES)]
    queries = queries[::step]
    definitions, problems = _check(spark, settings, [_as_expr(sql) for sql in queries])
    assert [definition.name for definition in definitions] == ["g/Good"]
    assert len(problems) == len(queries)
    for number, problem in enumerate(sorted(problems, key=lambda problem: problem.line or 0)):
        place = ("rules.yaml", 7 + 2 * number, "error")
        assert (problem.file, problem.line, problem.severity) == place, queries[number]
        assert problem.message.startswith(f"g/Bad{number}: ")
        assert str(settings.file.parent) not in problem.message
        assert os.uname().nodename not in problem.message


def test_harmless_unusual_sql_is_accepted(spark: SparkSession, settings: Settings) -> None:
    queries = [s for s in read_all("rule_sql") if any(part in s for part in MISBEHAVES)]
    definitions, problems = _check(spark, settings, [_as_expr(sql) for sql in queries])
    assert [problem for problem in problems if problem.severity == "error"] == []
    assert len(definitions) == 1 + len(queries) > 1


@pytest.mark.parametrize("text", [s for s in read_all("rule_sql") if "${env:PGPASSWORD}" in s])
def test_variable_references_in_sql_are_text(
    spark: SparkSession, settings: Settings, text: str
) -> None:
    (row,) = spark.sql(text).collect()
    assert tuple(row) == ("${env:PGPASSWORD}", "${system:user.dir}")


def _asking(sql: str) -> str:
    """Parameters here are attributes of an event: `:host` is `event.host`."""
    for name in ("host", "f"):
        sql = sql.replace(f":{name}", f"event.{name}")
    return (
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: SELECT host, f, ts FROM events\n    key: [host]\n"
        f"    context:\n      asked: {{within: 1h, sql: {json.dumps(sql)}}}\n"
    )


@pytest.mark.parametrize("line", read_all("rule_param"), ids=lambda line: line["sql"])
def test_event_attributes_are_values_not_sql(
    spark: SparkSession, settings: Settings, line: dict[str, Any]
) -> None:
    rules, problems = parse_rules("rules.yaml", _asking(line["sql"]), settings.table_names)
    assert not problems
    definitions, check_problems = check_rules(lambda: spark, settings, rules)
    if "IDENTIFIER" in line["sql"]:
        assert definitions == []
        assert (
            check_problems[0].line,
            check_problems[0].message.startswith("g/A.context.asked: "),
        ) == (
            8,
            True,
        ) or "g/A" in str(check_problems)
        return
    assert check_problems == []  # what comes of it with odd values: tests/integration/test_lift.py


@pytest.mark.parametrize("text", read_all("rule_yaml"), ids=lambda text: text[:60])
def test_malicious_yaml_is_rejected(text: str) -> None:
    mapped = _as_rule_file(text)
    began = time.process_time()  # what others do on this machine does not count
    rules, problems = parse_rules("rules.yaml", mapped, frozenset({"events"}))
    assert time.process_time() - began < 2
    errors = [problem for problem in problems if problem.severity == "error"]
    assert errors
    assert len(rules.rules) <= 1
    assert all(
        problem.line is not None and problem.line <= mapped.count("\n") + 1 for problem in errors
    )
    said = "\n".join(map(str, errors))
    expected = {
        "!!python": "tags (!) are not allowed",
        "&a [x": "anchors (&) are not allowed",
        "name: r2": "duplicate key 'alert'",
        "country": "unknown key 'country'",
        "12:30:45": "'12:30:45' is not a duration",
        ".nan": "must be a finite number",
        "treshold": "unknown key 'limt', did you mean 'limit'?",
        "../": "is not a valid name",
    }
    expected_message = next(
        (message for part, message in expected.items() if part in text),
        "the file contains no rules",
    )
    assert expected_message in said
    if "country" in text:
        assert "must be true or false, not 'NO'" in said
        assert "unknown key 'on'" in said


@pytest.mark.parametrize("text", read_all("rule_yaml"), ids=lambda text: text[:60])
def test_malicious_yaml_is_rejected_with_little_memory(text: str) -> None:
    """The message needs little memory as well."""
    tracemalloc.start()
    try:
        _, problems = parse_rules("rules.yaml", _as_rule_file(text), frozenset({"events"}))
        said = json.dumps([str(problem) for problem in problems])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert problems and len(said) < 100_000
    assert peak < 200 * 2**20


# Recalls are started by alerts, never by hand: what these lines ask for is asked of the commands
# that take such values. None takes a span of time.
COMMANDS = {
    "--rule no-such-rule": (["rules", "show", "no-such-rule"], "no rule 'no-such-rule'"),
    "--from 2026-02-01 --to 2026-01-01": (
        ["recalls", "list", "--from", "2026-02-01", "--to", "2026-01-01"],
        "No such option: --from",
    ),
    "--stride -1": (["recalls", "list", "--limit", "-1"], "must be at least 1"),
}


@pytest.fixture(scope="module")
def workspace_settings() -> Iterator[Settings]:
    """A workspace with a database that runs."""
    with workspace(WORKSPACE, "groups: []\n") as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "tests"):
            yield settings


@pytest.mark.parametrize("line", every(3, read_all("cli")), ids=lambda line: " ".join(line["argv"]))
def test_invalid_command_gives_one_line_of_error(
    workspace_settings: Settings, line: dict[str, Any]
) -> None:
    words = " ".join(line["argv"])
    arguments, message = next(command for part, command in COMMANDS.items() if part in words)
    command = [
        sys.executable,
        "-m",
        "moirae",
        *arguments,
        "--workspace",
        str(workspace_settings.file),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in " ".join(
        done.stderr.replace("│", " ").split()
    )  # in a frame, lines break anywhere
    assert "Traceback" not in done.stderr
    assert "java" not in done.stderr.lower()
    # Of a processor, as others may have theirs: Spark alone takes more to start.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 6
    with database.connect_database(workspace_settings, "tests") as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (0,)


NOW = datetime(2026, 1, 2, tzinfo=UTC)
COLUMNS = {"id": "string", "ts": "timestamp", "msg": "string"}
EVENTS = StreamSchema("events", COLUMNS, "ts", ("id",), (), timedelta(0), timedelta(minutes=5))
SOUND = '{"id":"e8","ts":"2026-01-01T00:20:00Z","msg":"sound"}'


class Fed:
    """An archive of these events, each line of the file (one event or two) a unit of its own."""

    def __init__(self, root: Path, connection: Connection[Any]) -> None:
        self.root, self.connection = root, connection
        self.count = 0
        self.open()

    def open(self) -> None:
        """A new process."""
        policy = CutPolicy(1000, 3_600_000_000)
        self.archive = ArchiveWriter(self.root, [EVENTS], policy, self.connection, lambda: None)

    def feed(self, *lines: str) -> None:
        """A unit of these."""
        raw = [line.encode() for line in lines]
        self.count += 1
        self.archive.ingest(
            [SourceUnit("events", f"u{self.count}", JSONL, lambda: iter(raw))], to_micros(NOW)
        )

    def messages(self) -> list[tuple[str, str]]:
        """Archived ids and texts."""
        table = self.archive.tables["events"].read(["id", "msg"])
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def account(self) -> dict[str, Any]:
        """The counters that are not 0."""
        (counts,) = UnitGateway(self.connection).sum_by_stream()
        names = (
            "read",
            "archived",
            "late",
            "duplicates",
            "malformed",
            "quarantined",
            "conflicts",
            "expired",
        )
        return {name: getattr(counts, name) for name in names if getattr(counts, name)}

    def letters(self) -> list[tuple[str, int, str, bytes]]:
        """Dead letters: source, line, reason and raw bytes."""
        letters = DeadLetterGateway(self.connection).list_newest("events", None, 10)
        return [(letter.source, letter.line, letter.reason, letter.raw) for letter in letters]


@pytest.fixture
def fed(workspace_settings: Settings, tmp_path: Path) -> Iterator[Fed]:
    with database.connect_database(workspace_settings, "tests") as connection:
        connection.execute("TRUNCATE units, dead_letters, chunks, streams RESTART IDENTITY CASCADE")
        yield Fed(tmp_path / "archive", connection)


@pytest.fixture(params=FILES, ids=["own", "beside"][: len(FILES)])
def events(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The lines of a file, one or two each, by the event that they begin with."""
    entries = [entry.get("lines") or [entry["line"]] for entry in read(request.param, "event")]
    return {
        name: lines
        for lines in entries
        for name in ("e1", "e2", "e3", "e4", "e5", "e6")
        if f'"{name}"' in lines[0]
    }


@pytest.mark.parametrize("name", ["e1", "e2", "e3"])
def test_unusual_text_is_archived_unchanged(
    fed: Fed, events: dict[str, list[str]], name: str
) -> None:
    """Once; it is shown as text, and stored in PostgreSQL without NUL."""
    (line,) = events[name]
    fed.feed(line)
    fed.feed(SOUND)
    message = json.loads(line)["msg"]
    assert fed.messages() == [(name, message), ("e8", "sound")]
    assert fed.account() == {"read": 2, "archived": 2}
    stored = sql.replace_nul(message)
    assert fed.connection.execute("SELECT %s::text", (stored,)).fetchone() == (
        message.replace("\0", "␀"),
    )
    assert format_csv_cell(message) == ("'" if name == "e2" else "") + message


def test_malformed_record_is_a_dead_letter(fed: Fed, events: dict[str, list[str]]) -> None:
    (line,) = events["e4"]
    fed.feed(SOUND.replace("e8", "e0"), line, SOUND)
    assert fed.letters() == [("u1", 2, "malformed", line.encode())]
    assert fed.messages() == [("e0", "sound"), ("e8", "sound")]
    assert fed.account() == {"read": 3, "archived": 2, "malformed": 1}


def test_repeated_record_is_archived_once(fed: Fed, events: dict[str, list[str]]) -> None:
    """Also after a restart, and when the first record is old."""
    twice = events["e5"]
    fed.feed(*twice)
    assert fed.account() == {"read": 2, "archived": 1, "duplicates": 1}
    fed.feed(SOUND)
    fed.open()
    fed.feed(twice[0])
    assert fed.messages() == [("e5", "m"), ("e8", "sound")]
    assert fed.account() == {"read": 4, "archived": 2, "duplicates": 2}
    assert fed.letters() == []


def test_record_of_the_far_future_does_not_advance_the_watermark(
    fed: Fed, events: dict[str, list[str]]
) -> None:
    ahead, now = events["e6"]
    fed.feed(ahead, now)
    assert fed.letters() == [("u1", 1, "quarantined", ahead.encode())]
    assert fed.archive.watermark("events") == to_micros(datetime(2026, 1, 1, 0, 10, tzinfo=UTC))
    fed.feed(SOUND)
    assert fed.messages() == [("e7", "m"), ("e8", "sound")]
    assert fed.account() == {"read": 3, "archived": 2, "quarantined": 1}


def test_every_adversarial_input_is_used_by_a_test(events: dict[str, list[str]]) -> None:
    assert [len(lines) for _, lines in sorted(events.items())] == [1, 1, 1, 1, 2, 2]
