"""A workspace on a machine whose clock is wrong: the time of the database decides."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.commands import Commands
from tests.workspaces import workspace

pytestmark = pytest.mark.slow

_SHIFT = timedelta(days=2)
# Python imports this module when it starts: also in all processes that a command starts.
_SHIFTED = """
import time
_time = time.time
time.time = lambda: _time() + {seconds}
"""
_WORKSPACE = """
home: home
server: {listen: "127.0.0.1:0"}
streams:
  s:
    columns: {ts: timestamp, n: bigint}
    time: ts
    id: [n]
    future: 1h
    source: {files: landing/*.jsonl}
no_input: null
rules: [rules.yaml]
"""
_RULES = """
groups:
- name: g
  rules:
  - {alert: Row, expr: "SELECT n, ts FROM s", key: [n]}
"""


@pytest.fixture(params=[-1, 1], ids=["slow", "fast"])
def root(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    seconds = request.param * _SHIFT.total_seconds()
    (tmp_path / "sitecustomize.py").write_text(_SHIFTED.format(seconds=seconds))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with workspace(_WORKSPACE, _RULES) as folder:
        yield folder


def test_rows_are_ahead_and_silences_end_by_the_clock_of_the_database(root: Path) -> None:
    now = datetime.fromtimestamp(time.time(), UTC)
    hours = [-24, 0, 2, 24]  # from now
    (root / "landing").mkdir()
    with (root / "landing" / "rows.jsonl").open("w") as file:
        for n, hour in enumerate(hours):
            ts = (now + timedelta(hours=hour)).isoformat()
            file.write(json.dumps({"ts": ts, "n": n}) + "\n")
    with Commands(root) as commands:
        drained = commands.run("up", "--drain")
        assert drained.returncode == 0, drained.stderr[-3000:]
        alerts = commands.exported("alerts")
        accounting = commands.json("status")["accounting"]
        commands.output("silence", "add", "rule=g/Row", "--duration", "1h", "--comment", "c")
        (silence,) = commands.json("silence", "query")
    assert sorted(alert["key"]["n"] for alert in alerts) == [0, 1]
    assert accounting["archived"] == 2
    assert accounting["dead_lettered"] == 2
    assert silence["state"] == "active"
    starts_at = datetime.fromisoformat(silence["starts_at"])
    assert timedelta(0) <= starts_at - now < timedelta(hours=1)
