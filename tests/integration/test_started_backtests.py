"""Drafts of rules, and back-tests that clients of the server have started."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from pyspark.sql import SparkSession

from archiver.chunks.chunk import CutPolicy
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.backtest_process import BacktestRunner
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.deployments import RuleRegistry, check_rule_files
from moirae.errors import Conflict, NotFound, ProblemsError
from moirae.queries import task
from moirae.runtime import database
from moirae.runtime.storage import open_storage
from moirae.services import LocalWorkspace
from moirae.services.operations import backtests, drafts
from moirae.services.operations.backtests import BacktestBody, BacktestStatus
from moirae.services.operations.drafts import DraftBody, DraftChange
from moirae.services.operations.rules import RuleDocument
from sql.rules import BacktestGateway
from tests.workspaces import workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKSPACE = """
home: .moirae
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    id: [host]
    lateness: 0s
    source: {files: cpu/*.jsonl}
rules: [rules.yaml]
watch_rules: false
"""
RULES = """
groups:
- name: g
  derived:
  - {stream: busy, expr: "SELECT host, ts, cpu FROM cpu WHERE cpu > 50"}
  rules:
  - alert: High
    expr: SELECT host, ts, cpu FROM busy WHERE cpu > 90  # pages
    key: [host]
    keep_firing_for: 2m
  - {alert: Other, expr: "SELECT host, ts FROM busy", key: [host]}
"""
VALUES = [10, 95, 10, 10, 10, 85, 10, 10, 10]  # one a minute, on two days


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, RULES) as folder:
        yield folder


@pytest.fixture(scope="module")
def settings(root: Path) -> Settings:
    return load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture(scope="module")
def connection(settings: Settings, spark: SparkSession) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "tests") as opened:
        schema = stream_schema("cpu", settings.streams["cpu"])
        policy = CutPolicy(1_000, duration_to_micros(timedelta(days=1)))
        writer = ArchiveWriter(open_storage(settings), [schema], policy, opened, lambda: None)
        lines = []
        for day in (0, 1):
            for minute, value in enumerate(VALUES):
                ts = START + timedelta(days=day, minutes=minute)
                row = {"ts": ts.isoformat(), "host": "a", "cpu": value}
                lines.append(json.dumps(row).encode())
        unit = SourceUnit("cpu", "rows", JSONL, lambda: iter(lines))
        writer.ingest([unit], to_micros(datetime.now(UTC)))
        definitions, _ = check_rule_files(lambda: spark, settings, settings.find_rule_files())
        RuleRegistry(opened).apply(definitions)
        yield opened


@pytest.fixture
def services(settings: Settings, connection: Connection[Any]) -> LocalWorkspace:
    return LocalWorkspace(settings=settings, connection=connection, author="ada", via="api")


@pytest.fixture
def runner(
    settings: Settings,
    connection: Connection[Any],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> BacktestRunner:
    monkeypatch.setattr(task.ProcessGateway, "list_all", lambda self: [_RecallProcess])
    return BacktestRunner(settings, connection, lambda: spark)


class _RecallProcess:
    role = "recall"
    alive = True


def run(services: LocalWorkspace, runner: BacktestRunner, **body: Any) -> BacktestStatus:
    started = backtests.start(services, BacktestBody(**{"last": "30d", **body}))
    assert backtests.show(services, started.id).state == "waiting"
    assert runner.run_next()
    return backtests.show(services, started.id)


def draft(content: str) -> list[RuleDocument]:
    return [RuleDocument(name="draft.yaml", content=content)]


def test_draft_is_compared_with_the_applied_rule(
    services: LocalWorkspace, runner: BacktestRunner
) -> None:
    text = drafts.show(services, "High")
    assert text.file is not None and "# pages" in text.content and "Other" not in text.content
    content = text.content.replace("cpu > 90", "cpu > 80")
    status = run(services, runner, files=draft(content), rule="g/High")
    assert (status.state, status.progress, status.error) == ("done", 1.0, None)
    (rule,) = status.rules
    assert (rule.alerts, rule.new, rule.unchanged, rule.gone) == (4, 2, 2, 0)
    assert rule.before == text.version != rule.version
    changes = [(alert.change, alert.starts_at.minute) for alert in rule.listed]
    assert changes == [("unchanged", 1), ("new", 5)] * 2
    assert "host = 'a'" in rule.listed[1].rows["cpu"]
    assert rule.evaluated_from == rule.start == START
    assert [alert.change for alert in rule.listed_before] == ["unchanged"] * 2
    assert {problem.severity for problem in status.problems} <= {"note", "warning"}


def test_errors_of_queries_have_their_place_and_nothing_is_evaluated(
    services: LocalWorkspace, runner: BacktestRunner
) -> None:
    content = drafts.show(services, "High").content
    wrong = content.replace("cpu > 90", "cpux > 90")
    status = run(services, runner, files=draft(wrong), rule="g/High", check_only=True)
    assert (status.state, status.rules) == ("done", [])
    (problem,) = [entry for entry in status.problems if entry.severity == "error"]
    assert "unknown column 'cpux'" in problem.message and problem.line is not None
    shared = content.replace("cpu > 50", "cpu > 60")
    status = run(services, runner, files=draft(shared), rule="g/High", check_only=True)
    assert any("g/Other has this derived stream" in entry.message for entry in status.problems)
    status = run(services, runner, files=draft(content), rule="g/High", check_only=True)
    assert not [entry for entry in status.problems if entry.severity == "error"]


def test_files_are_compared_with_those_before(
    services: LocalWorkspace, runner: BacktestRunner
) -> None:
    changed = RULES.replace("cpu > 90", "cpu > 80")
    status = run(services, runner, files=draft(changed), base=draft(RULES))
    assert [(rule.rule, rule.new) for rule in status.rules] == [("g/High", 2)]
    status = run(services, runner, files=draft(RULES), base=draft(RULES))
    assert (status.state, status.rules) == ("done", [])


def test_waiting_backtest_is_cancelled_at_once(
    services: LocalWorkspace, runner: BacktestRunner
) -> None:
    started = backtests.start(services, BacktestBody(files=draft(RULES)))  # type: ignore[call-arg]
    assert backtests.cancel(services, started.id).state == "cancelled"
    assert not runner.run_next()
    with pytest.raises(NotFound, match="no back-test"):
        backtests.show(services, UUID(int=1))


def test_backtest_whose_process_ended_is_run_again_and_given_up_at_last(
    services: LocalWorkspace, runner: BacktestRunner
) -> None:
    gateway = BacktestGateway(services.connection)
    started = backtests.start(services, BacktestBody(files=draft(RULES), base=[]))  # type: ignore[call-arg]
    first = gateway.claim(30.0)
    assert first is not None and first.attempts == 1
    assert gateway.claim(30.0) is None, "its process shows signs of life"
    second = gateway.claim(-1.0)
    assert second is not None and second.attempts == 2
    assert not gateway.beat(first), "another process has it"
    gateway.finish(first, "done")
    assert backtests.show(services, started.id).state == "running"
    third = gateway.claim(-1.0)
    assert third is not None
    services.connection.execute("UPDATE backtests SET seen_at = now() - interval '1 hour'")
    assert runner.run_next()
    status = backtests.show(services, started.id)
    assert status.state == "failed" and "its process ended" in (status.error or "")


def test_reading_a_draft_finds_errors_of_keys_and_other_names(services: LocalWorkspace) -> None:
    content = drafts.show(services, "High").content

    def read(text: str, rule: str | None = "g/High") -> list[str]:
        body = DraftBody(content=text, rule=rule)
        return [problem.message for problem in drafts.read(services, body).problems]

    assert read(content) == []
    assert "unknown key 'fr'" in read(content + "    fr: 5m\n")[0]
    assert "another name is another rule" in read(content.replace("High", "Low"))[0]
    assert read(content.replace("High", "Low"), None) == []
    assert "a draft has one rule, this has 2" in read(RULES)[0]
    assert "not YAML" in read("a: [")[0]


def test_draft_is_applied_in_place_of_its_rule_unless_another_is_applied_meanwhile(
    services: LocalWorkspace, spark: SparkSession, connection: Connection[Any]
) -> None:
    before = drafts.show(services, "High")
    content = before.content.replace("cpu > 90", "cpu > 95")

    def apply(version: str | None, text: str = content) -> Any:
        change = DraftChange(content=text, rule="g/High", version=version, comment="too many")
        return drafts.apply(services, change)

    step = apply(before.version)
    assert (step.action, step.rule, step.before) == ("change", "g/High", before.version)
    after = drafts.show(services, "High")
    assert (after.version, after.file) == (step.after, None)
    assert "cpu > 95" in after.content
    assert "g/Other" in {rule.name for rule in RuleRegistry(connection).desired_rules()}
    row = connection.execute("SELECT arguments FROM audit ORDER BY id DESC LIMIT 1").fetchone()
    assert row is not None and row[0]["body"]["comment"] == "too many"
    with pytest.raises(Conflict, match="was changed meanwhile"):
        apply(before.version)
    with pytest.raises(ProblemsError):
        apply(after.version, content.replace("cpu > 95", "cpux > 95"))
    assert apply(after.version).action == "stay"
    assert apply(after.version, before.content).after == before.version
