"""Every command once on this machine and once with `--server`, with equal output.

Commands and the server run in this process and share its Spark session: to start a process for each
would take minutes.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import structlog
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from archiver.chunks.chunk import CutPolicy
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import duration_to_micros, to_micros
from moirae.cli import app
from moirae.config.table_schemas import stream_schema
from moirae.errors import MoiraeError
from moirae.queries.task import has_recall_process
from moirae.runtime.storage import open_storage
from tests.api_data import COUNT, RULES, WORKSPACE, alert_id, event_id, fill, put_task, task_id
from tests.sampled import every
from tests.served import Served, serve_here

ALERT, EVENT, RECALL = str(alert_id(1)), str(event_id(1)), str(task_id(1))
NEWEST = str(event_id(COUNT - 1))
FORMATS = ([], ["-o", "json"])

# Commands about processes of this machine, its files, or files that the command names.
LOCAL_COMMANDS = """
    moirae init, moirae up, moirae demo, moirae doctor, moirae run live, moirae run recall,
    moirae run server, moirae run backup, moirae similarity run, moirae mcp, moirae backup create,
    moirae backup list, moirae backup new-key, moirae restore, moirae run notify,
    moirae routes import,
    moirae streams infer, moirae streams test,
    moirae rules import-sigma, moirae rules test, moirae rules backtest,
    moirae rules tune, moirae rules why,
    moirae setup, moirae upgrade, moirae import prometheus, moirae archive compact, moirae archive erase,
    moirae cluster accept, moirae cluster check
"""
# Nothing listens there.
_RECEIVERS = 'receivers: {ops: {webhook: "http://127.0.0.1:9/"}}\n'
# Read only, in all formats.
READING: list[list[str]] = [
    ["rules", "report"],
    ["rules", "report", "none", "--weeks", "2"],
    ["alerts", "list"],
    ["alerts", "list", "--all", "--limit", "2"],
    ["alerts", "list", "--search", "HOST3", "--label", "severity=page"],
    ["alerts", "list", "--since", "2026-01-01T00:02Z", "--until", "2026-01-01T00:04", "--all"],
    ["alerts", "list", "--state", "pending"],
    ["alerts", "list", "--rule", "none"],
    ["alerts", "show", ALERT],
    ["alerts", "show", "ff"],
    ["alerts", "show", "a"],
    ["events", "list", "--limit", "3"],
    ["events", "show", EVENT],
    ["events", "show", "ff"],
    ["events", "changes", EVENT],
    ["events", "changes", EVENT, "--within", "soon"],
    ["incidents", "list"],
    ["incidents", "list", "--state", "other"],
    ["incidents", "show", ALERT],
    ["incidents", "show", "ff"],
    ["incidents", "similar", ALERT],
    ["tags", "list"],
    ["similar", NEWEST],
    ["similar", EVENT],
    ["recalls", "list"],
    ["recalls", "list", "--event", EVENT, "--state", "done"],
    ["recalls", "list", "--rule", "none"],
    ["recalls", "show", EVENT],
    ["recalls", "show", NEWEST],
    ["recalls", "repeat", NEWEST],
    ["recalls", "follow", "similar", "--until-now"],
    ["recalls", "follow", "none", "--until-now"],
    ["rules", "list"],
    ["rules", "list", "--reads", "cpu"],
    ["rules", "list", "--reads", "none"],
    ["rules", "show", "r"],
    ["rules", "show", "s"],
    ["rules", "explain", "g/r"],
    ["streams", "list"],
    ["streams", "losses"],
    ["streams", "records", "cpu"],
    ["streams", "records", "none"],
    ["streams", "losses", "none"],
    ["set-aside", "list"],
    ["relations", "list"],
    ["receivers", "list"],
    ["receivers", "messages"],
    ["routes", "show"],
    ["routes", "test", "severity=page"],
    ["silence", "query"],
    ["silence", "preview", "host=~host.*"],
    ["silence", "query", "--expired"],
    ["chunks", "list"],
    ["chunks", "show", "1"],
    ["chunks", "show", "99"],
    ["dead-letters", "list", "--limit", "1"],
    ["dead-letters", "list", "--stream", "none"],
    ["similarity", "eval"],
    ["similarity", "eval", "--rule", "none"],
    ["similarity", "ask"],
    ["similarity", "ask", "--rule", "none"],
    ["similarity", "forecasts"],
    ["tokens", "list"],
    ["status", "--process", "live"],
]
# In their one format.
PRINTING: list[list[str]] = [
    ["recalls", "watch", NEWEST],
    ["status"],
    *(
        ["export", kind, "--format", form]
        for kind in ("events", "alerts", "contexts", "similar", "recalls")
        for form in ("csv", "jsonl")
    ),
    ["export", "similar", "--recall", "none"],
    ["receivers", "preview", "none", ALERT],
    ["receivers", "preview", "ops", ALERT],
]
# Changes that can be made twice with equal output.
CHANGING: list[list[str]] = [
    ["alerts", "ack", ALERT],
    ["alerts", "note", ALERT, "see the runbook"],
    ["alerts", "note", ALERT, " "],
    ["alerts", "assign", ALERT, "ada", "until Monday"],
    ["alerts", "resolve", ALERT, "restarted", "--tag", "restart"],
    ["alerts", "checked", ALERT, "df /var", "--result", "91 %", "--outcome", "ruled out"],
    ["alerts", "checked", ALERT, "df /var", "--outcome", "maybe"],
    ["alerts", "propose", ALERT, "restart it", "--tag", "restart"],
    ["alerts", "confirm", ALERT],
    ["incidents", "confirm", ALERT, "--comment", "one switch"],
    ["incidents", "split", ALERT, ALERT],
    ["incidents", "merge", ALERT, "--into", ALERT],
    ["incidents", "resolve", ALERT, "replaced the switch", "--tag", "switch"],
    ["tags", "rename", "none", "other"],
    ["tags", "merge", "none", "--into", "restart"],
    ["similarity", "agree", NEWEST, EVENT],
    ["similarity", "disagree", NEWEST, EVENT],
    ["similarity", "withdraw", NEWEST, EVENT],
    ["similarity", "withdraw", NEWEST, EVENT],
    ["similarity", "agree", NEWEST, NEWEST],
    ["finalize", EVENT],
    ["finalize", EVENT, "-o", "json"],
    ["cancel", "--older-than", "900d"],
    ["accelerate", "--rule", "none"],
    ["refine", RECALL, "--key", "a key"],
    ["refine", EVENT, "--key", "a key"],
    ["rules", "resume", "r"],
    ["dead-letters", "retry", "1:99"],
    ["dead-letters", "retry", "--stream", "cpu", "-o", "json"],
    ["tokens", "revoke", "none"],
    ["set-aside", "retry", "none"],
    ["set-aside", "retry", "--all"],
    ["relations", "accept", "none"],
    ["silence", "add", "host=", "--comment", "x"],
    ["silence", "expire", "ffff"],
    ["receivers", "revoke-links", "--receiver", "none"],
    ["receivers", "test", "none"],
    ["receivers", "test", "ops"],
    ["streams", "acknowledge", "cpu"],
    ["streams", "acknowledge", "none"],
    ["ingest", "none", "-"],
]


# While a recall process runs.
QUERIES: list[list[str]] = [
    ["SELECT host, count(*) AS n, avg(cpu) AS mean FROM cpu GROUP BY host ORDER BY host"],
    ["SELECT ts, host, cpu FROM cpu", "--limit", "3"],
    ["SELECT count(*) AS n FROM cpu", "--since", "3s"],
    ["SELECT * FROM none"],
    ["SELECT cpu FROM cpu LIMIT 1000"],
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_here(WORKSPACE + _RECEIVERS, RULES) as running:
        fill(running.connection)
        put_task(running.connection, COUNT)  # of an event that was deleted
        yield running


@pytest.fixture(autouse=True)
def _no_recall_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moirae.cli.recall_control._COMMAND_TIMEOUT", 0.2)


@pytest.fixture(scope="module")
def applied(served: Served, spark: SparkSession) -> Served:
    """The rules of the workspace, checked, compared and applied: locally, then remotely.

    Both use the Spark session of the tests.
    """
    for arguments in (["rules", "check"], ["rules", "diff"], ["rules", "apply", "--dry-run"]):
        for form in FORMATS:
            compare(served, [*arguments, *form])
    file = served.settings.file.with_name("broken.yaml")
    file.write_text("groups: [{name: g, rules: [{alert: r, exp: x}]}]\n")
    compare(served, ["rules", "check", str(file)])
    compare(served, ["rules", "apply", str(file)])
    run(served, ["rules", "apply", str(served.settings.file.with_name("rules.yaml"))])
    compare(served, ["rules", "apply"])
    return served


def run(served: Served, arguments: list[str], remote: bool = False, **options: Any) -> Result:
    where = ["--workspace", str(served.settings.file)]
    if remote:
        where = ["--server", served.url, "--token-file", str(served.token_file("admin"))]
    # Log lines are not a part of the outcome: the server has its own.
    with structlog.testing.capture_logs():
        result = CliRunner().invoke(app, [*arguments, *where], **options)
    # `python -m moirae` prints errors of Moirae.
    if not isinstance(result.exception, SystemExit | MoiraeError | None):
        raise result.exception
    return result


def outcome(result: Result) -> tuple[Any, ...]:
    """What a user sees."""
    error = result.exception
    message = None if error is None or isinstance(error, SystemExit) else (type(error), str(error))
    code = getattr(error, "exit_code", result.exit_code)
    return result.stdout, result.stderr, code, message


def compare(served: Served, arguments: list[str], **options: Any) -> Result:
    """Run a command here and at the server; the outcome must be the same."""
    here = run(served, arguments, **options)
    there = run(served, arguments, remote=True, **options)
    assert outcome(there) == outcome(here), arguments
    return here


@pytest.mark.parametrize("arguments", every(3, READING), ids=" ".join)
@pytest.mark.parametrize("form", every(2, FORMATS), ids=["table", "json"])
def test_reading_command(applied: Served, arguments: list[str], form: list[str]) -> None:
    compare(applied, [*arguments, *form])


def test_status_of_a_process_between_two_heartbeats(applied: Served) -> None:
    for form in FORMATS:
        arguments = ["status", "--process", "server", *form]
        for _ in range(5):
            here = outcome(run(applied, arguments))
            there = outcome(run(applied, arguments, remote=True))
            if here == there:
                break
        assert here == there


@pytest.mark.parametrize("arguments", every(3, PRINTING), ids=" ".join)
def test_printing_command(applied: Served, arguments: list[str]) -> None:
    compare(applied, arguments)


@pytest.mark.parametrize("arguments", CHANGING, ids=" ".join)
def test_changing_command(applied: Served, arguments: list[str]) -> None:
    compare(applied, arguments)


def test_ingested_file_lands_with_its_content(applied: Served, tmp_path: Path) -> None:
    row = b'{"ts": "2026-01-01T00:00:00Z", "host": "a", "cpu": 1.5}\n'
    file = tmp_path / "rows.jsonl"
    file.write_bytes(row)
    applied.clear()
    compare(applied, ["ingest", "cpu", str(file)])
    compare(applied, ["ingest", "cpu", "-"], input=row)
    landed = applied.landed()
    assert list(landed.values()) == [row] * 4
    stems = sorted(name.split("-")[1] for name in landed)
    assert stems == ["rows", "rows", "stdin", "stdin"]
    compare(applied, ["ingest", "cpu", str(file), "--wait"])
    applied.clear()


def test_token_is_created_and_revoked(applied: Served) -> None:
    for remote in (False, True):
        created = run(applied, ["tokens", "create", "robot", "--role", "viewer"], remote)
        assert re.fullmatch(r"moirae_[0-9a-f]{16}_[\w-]{43}\n", created.stdout)
        again = run(applied, ["tokens", "create", "robot", "--role", "viewer"], remote)
        assert "already exists" in str(again.exception)
        url = run(applied, ["tokens", "login-url", "robot"], remote).stdout
        assert re.fullmatch(r"http://[^/]+/login#code=[\w-]{43}\n", url)
        assert run(applied, ["tokens", "revoke", "robot"], remote).stdout == "revoked token robot\n"


def test_audit_names_the_token_and_the_login_name(applied: Served) -> None:
    run(applied, ["alerts", "ack", ALERT, "here", "--author", "ada"])
    run(applied, ["alerts", "ack", ALERT, "there"], remote=True)
    for remote in (False, True):
        shown = run(applied, ["audit", "--operation", "alerts.acknowledge", "-o", "json"], remote)
        there, here = json.loads(shown.stdout)[:2]
        assert (here["author"], here["via"]) == ("ada", "cli")
        assert (there["author"], there["via"]) == ("admin", "api")
        assert there["arguments"] == {"alert": ALERT, "body": {"text": "there"}}
        assert run(applied, ["audit", "--author", "ada"], remote).stdout.count("ada") >= 1
    refused = run(applied, ["alerts", "ack", ALERT, "--author", "ada"], remote=True)
    assert "the author is the token's name" in str(refused.exception)


@pytest.fixture(scope="module")
def archived(applied: Served) -> Served:
    """Ten rows of the stream `cpu` are archived."""
    schema = stream_schema("cpu", applied.settings.streams["cpu"])
    policy = CutPolicy(1_000, duration_to_micros(timedelta(days=1)))
    root = open_storage(applied.settings)
    writer = ArchiveWriter(root, [schema], policy, applied.connection, lambda: None)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    lines = []
    for second in range(10):
        ts = (start + timedelta(seconds=second)).isoformat()
        row = {"ts": ts, "host": f"h{second % 3}", "cpu": second / 2}
        lines.append(json.dumps(row).encode())
    unit = SourceUnit("cpu", "rows", JSONL, lambda: iter(lines))
    writer.ingest([unit], to_micros(datetime.now(UTC)))
    return applied


@contextmanager
def recall_process(served: Served) -> Iterator[None]:
    command = ["run", "recall", "--workspace", str(served.settings.file)]
    with served.log.with_name("recall.log").open("wb") as log:
        process = psutil.Popen([sys.executable, "-m", "moirae", *command], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not has_recall_process(served.connection):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_query(archived: Served) -> None:
    with recall_process(archived):
        for form in ("table", "json"):
            compare(archived, ["query", *QUERIES[0], "-o", form])
        for arguments in QUERIES[1:]:
            compare(archived, ["query", *arguments, "-o", "csv"])
        follow = ["--follow", "--for", "3s", "-o", "csv"]
        followed = compare(archived, ["query", "SELECT host, cpu FROM cpu", *follow])
    assert followed.stdout.splitlines() == ["host,cpu", *[f"h{n % 3},{n / 2}" for n in range(10)]]


def test_query_at_a_server_needs_a_recall_process(archived: Served) -> None:
    failed = run(archived, ["query", "SELECT count(*) AS n FROM cpu"], remote=True)
    assert type(failed.exception) is MoiraeError  # so that the request is not repeated
    assert "no recall process is running" in str(failed.exception)


def test_all_commands_are_compared() -> None:
    compared = {"tokens create", "tokens login-url", "audit", "rules check", "rules diff"}
    compared |= {"rules apply", "rules ci", "ingest", "query"}
    names = set(_command_names(typer.main.get_command(app)))
    for arguments in (*READING, *PRINTING, *CHANGING):
        compared.add(" ".join(arguments[:2]) if " ".join(arguments[:2]) in names else arguments[0])
    local = {name.strip().removeprefix("moirae ") for name in LOCAL_COMMANDS.split(",")}
    local = {" ".join(name.split()) for name in local}
    assert names - compared - local == set()


def _command_names(command: Any, path: str = "") -> Iterator[str]:
    for name, subcommand in command.commands.items():
        full_name = f"{path} {name}".strip()
        if hasattr(subcommand, "commands"):
            yield from _command_names(subcommand, full_name)
        else:
            yield full_name


def test_command_of_this_machine_has_no_server() -> None:
    result: Callable[..., Result] = CliRunner().invoke
    assert result(app, ["doctor", "--server", "http://127.0.0.1:1"]).exit_code == 2
