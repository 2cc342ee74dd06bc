"""The page "Monitoring a web server and the journal", as a new user follows it."""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.commands import Commands

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "monitor-a-machine.md"
START = datetime(2026, 11, 20, 10, tzinfo=UTC)

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(1500)]


def _request(second: int, request: str, status: int) -> str:
    time = (START + timedelta(seconds=second)).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'203.0.113.7 - - [{time}] "{request}" {status} 612 "-" "curl/8.5"\n'


def _entry(second: int, message: object, **fields: str) -> str:
    micros = int((START + timedelta(seconds=second)).timestamp() * 1_000_000)
    names = {"__CURSOR": f"s=1;i={second:x}", "__REALTIME_TIMESTAMP": str(micros)}
    record = {**names, "_HOSTNAME": "web-1", "PRIORITY": "6", **fields, "MESSAGE": message}
    return json.dumps(record) + "\n"


def _requests() -> str:
    lines = [_request(second, "GET / HTTP/1.1", 200) for second in range(0, 600, 10)]
    lines += [_request(300 + second, "POST /login HTTP/1.1", 502) for second in range(20)]
    lines += [_request(330, "-", 400), _request(331, "\\x16\\x03\\x01", 400)]
    return "".join(sorted(lines, key=lambda line: line.partition("[")[2]))


def _journal() -> str:
    systemd = {"_SYSTEMD_UNIT": "init.scope", "UNIT": "app.service"}
    systemd["SYSLOG_IDENTIFIER"] = "systemd"
    entries = [_entry(n, "(root) CMD (true)", SYSLOG_IDENTIFIER="CRON") for n in range(60)]
    entries.append(_entry(290, "app.service: Failed with result 'exit-code'.", **systemd))
    entries.append(_entry(300, [27, 91, 109], SYSLOG_IDENTIFIER="app"))
    entries.append(_entry(301, None, SYSLOG_IDENTIFIER="app"))
    killed = "Memory cgroup out of memory: Killed process 4711 (java)"
    entries.append(_entry(310, killed, SYSLOG_IDENTIFIER="kernel"))
    failed = "Failed password for invalid user admin from 203.0.113.9 port 4242 ssh2"
    # From version 9.8 on, a program of its own serves a connection.
    programs = ("sshd", "sshd-session")
    entries += [_entry(320 + n, failed, SYSLOG_IDENTIFIER=programs[n % 2]) for n in range(11)]
    return "".join(entries)


@pytest.fixture(scope="module")
def machine() -> Iterator[Commands]:
    """A workspace with the files of the page, its input read to the end."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    settings, rules = blocks
    root = Path(tempfile.mkdtemp(prefix="moirae-machine-"))
    root.chmod(0o755)
    directory = root / "moirae"
    (directory / "logs").mkdir(parents=True)
    (directory / "rules").mkdir()
    assert "/var/log/nginx/access.log*" in settings
    (directory / "moirae.yaml").write_text(settings.replace("/var/log/nginx", "logs"))
    (directory / "rules" / "machine.yaml").write_text(rules)
    (directory / "logs" / "access.log").write_text(_requests())
    journal = _journal()
    repeated = "".join(journal.splitlines(keepends=True)[-5:])  # `journalctl` was started again
    (directory / "logs" / "journal.jsonl").write_text(journal + repeated)
    with Commands(directory) as commands:
        commands.output("up", "--drain")
        yield commands
    shutil.rmtree(root, ignore_errors=True)


def test_the_rules_of_the_page_find_what_happened(machine: Commands) -> None:
    rules = {alert["rule"].rpartition("/")[2]: alert["key"] for alert in machine.exported("alerts")}
    assert rules == {
        "ServerErrors": {},
        "UnitFailed": {"unit": "app.service"},
        "OutOfMemory": {"host": "web-1"},
        "PasswordGuessing": {"host": "web-1"},
    }


def test_repeated_entries_of_the_journal_are_duplicates(machine: Commands) -> None:
    query = "SELECT count(*) AS n, count(DISTINCT cursor) AS cursors FROM journal"
    assert machine.json("query", query)["rows"] == [{"n": 75, "cursors": 75}]


@pytest.mark.parametrize(("stream", "file"), [("web", "access.log"), ("journal", "journal.jsonl")])
def test_records_are_shown_before_anything_runs(machine: Commands, stream: str, file: str) -> None:
    assert "0 refused" in machine.output(
        "streams", "test", stream, str(machine.root / "logs" / file)
    )
