"""`moirae up` over topics of a real broker: one that cannot be read stops its stream only."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import Broker
from tests.faults.harness import Stage, workspace
from tests.landing import put_file
from tests.topics import STREAM, Topics, needs_broker, row

pytestmark = [needs_broker, pytest.mark.processes, pytest.mark.timeout(900)]

FILES = """
  f:
    columns: {ts: timestamp, k: string}
    time: ts
    id: [k]
    source: {files: landing/f/*.jsonl}
"""

RULES = """
groups:
- name: g
  rules:
  - {alert: Row, expr: "SELECT k, ts FROM x WHERE k = 'x1'", key: [k]}
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.kill()


@pytest.fixture
def system(broker: Broker) -> Iterator[Stage]:
    """Streams x and a read topics, stream f reads files."""
    streams = [
        STREAM.format(name=name, servers=broker.address, topic=name, more="") for name in "xa"
    ]
    listen = 'server: {listen: "127.0.0.1:0"}'
    declared = f"home: .moirae\n{listen}\nstreams:{''.join(streams)}{FILES}rules: [rules.yaml]\n"
    with workspace(declared, RULES) as root:
        system = Stage(root, seed=1)
        yield system
        system.end()


def _count(system: Stage, stream: str) -> int:
    row = system.connection.execute(
        "SELECT coalesce(sum(archived), 0) FROM units WHERE stream = %s", [stream]
    ).fetchone()
    assert row is not None
    return int(row[0])


def _moirae(system: Stage, *arguments: str) -> "subprocess.CompletedProcess[str]":
    file = str(system.root / "moirae.yaml")
    command = [sys.executable, "-m", "moirae", *arguments, "--workspace", file]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def _find_problem(system: Stage, text: str) -> bool:
    """Whether `moirae status` names a problem, with its exit code 1."""
    result = _moirae(system, "status", "-o", "json")
    problems: list[str] = json.loads(result.stdout)["problems"]
    assert result.returncode == (1 if problems else 0)
    return any(text in problem for problem in problems)


def _readiness(system: Stage) -> tuple[int, dict[str, Any]]:
    ((state,),) = _rows(system, "SELECT state FROM processes WHERE role = 'server'")
    address = state.removeprefix("listening on ")
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def _write_file(system: Stage, name: str) -> None:
    (system.root / "landing" / "f").mkdir(parents=True, exist_ok=True)
    put_file(system.root / "landing" / "f" / f"{name}.jsonl", row(name).decode() + "\n")


@pytest.mark.slow
def test_topic_that_cannot_be_read_stops_its_stream_only(system: Stage, broker: Broker) -> None:
    # The broker is away at the start.
    _write_file(system, "f1")
    system.up()
    system.wait(lambda: _count(system, "f") == 1, 240)
    away = "SELECT stream FROM source_errors WHERE kind = 'away' ORDER BY stream"
    system.wait(lambda: _rows(system, away) == [("a",), ("x",)], 30)
    assert _find_problem(system, f"the Kafka brokers {broker.address} do not answer")
    status, answer = _readiness(system)
    assert status == 503
    assert any(broker.address in reason for reason in answer["missing"])
    # It is there, and has one of two topics.
    broker.start()
    topics = Topics(broker)
    topics.create("a")
    topics.send_rows("a", "a", 20)
    system.wait(lambda: _count(system, "a") == 20, 60)
    missing = "SELECT stream FROM source_errors WHERE kind = 'missing'"
    system.wait(lambda: _rows(system, missing) == [("x",)], 60)
    assert _find_problem(system, "topic x does not exist")
    topics.create("x", partitions=3)
    topics.send_rows("x", "x", 30)
    system.wait(lambda: _count(system, "x") == 30, 60)
    system.wait(lambda: _rows(system, "SELECT stream FROM source_errors") == [], 30)
    assert _readiness(system)[0] == 200
    # One topic is made again while it is read.
    topics.delete("x")
    topics.create("x")
    topics.send_rows("x", "again", 30)
    topics.send_rows("a", "more", 5)
    system.wait(lambda: _count(system, "x") == 60 and _count(system, "a") == 25, 60)
    # The broker dies.
    broker.kill()
    died_at = time.monotonic()
    system.wait(lambda: len(_rows(system, away)) == 2, 30)
    waited = time.monotonic() - died_at
    print(f"the broker is said to be away after {waited:.1f} s")
    assert waited < 25, "15 s, on a machine that is not busy"
    _write_file(system, "f2")
    system.wait(lambda: _count(system, "f") == 2, 60)
    log = system.log.read_text()
    assert "Traceback" not in log and "org.apache" not in log
    assert system.connection.execute(
        "SELECT max(epoch) FROM processes WHERE role = 'live'"
    ).fetchone() == (1,)
    system.down()
    # A drain names the topics that it could not read.
    _write_file(system, "f3")
    drained = _moirae(system, "up", "--drain")
    assert drained.returncode == 1
    assert _count(system, "f") == 3
    for stream in ("x", "a"):
        assert f"stream {stream}: " in drained.stderr
    assert "Traceback" not in drained.stderr


def _rows(system: Stage, query: str) -> list[tuple[Any, ...]]:
    return system.connection.execute(query).fetchall()
