"""`moirae status` for a workspace with failed parts."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.config import digest_declarations
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import database
from moirae.runtime.roles import ReconnectingRole, Role
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:PORT"}
streams:
  cpu: {columns: {ts: timestamp}, time: ts, source: {files: x/*.jsonl}}
"""


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """A port at which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.fixture(scope="module")
def root(taken: int) -> Iterator[Path]:
    with workspace(WORKSPACE.replace("PORT", str(taken)), "groups: []\n") as folder:
        yield folder


def _status(root: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        app, ["status", "--workspace", str(root / "moirae.yaml"), *arguments]
    )
    return result.exit_code, result.stdout


def _status_json(root: Path) -> tuple[int, Any]:
    code, text = _status(root, "-o", "json")
    return code, json.loads(text)


def test_full_disk_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _status_json(root)[1]["problems"] == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Mock(free=1 << 20))
    code, shown = _status_json(root)
    assert (code, [disk["full"] for disk in shown["disks"]]) == (1, [True])
    code, text = _status(root)
    assert (code, text.partition(":")[0]) == (1, "PROBLEM")
    assert "1 MiB free at" in text


@pytest.mark.slow
def test_port_in_use_is_reported_with_its_address(root: Path, taken: int) -> None:
    settings = load_settings_from_environment(root / "moirae.yaml")
    supervisor = ReconnectingRole(partial(database.connect_database, settings, "tests"), "up", 0.0)
    supervisor.heartbeat("running")
    command = [sys.executable, "-m", "moirae", "run", "server", "--workspace", str(settings.file)]
    server = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    reason = f"cannot listen on 127.0.0.1:{taken}: the port is in use"
    assert server.returncode == 1
    assert reason in server.stderr
    supervisor.heartbeat("running")
    code, shown = _status_json(root)
    assert code == 1
    (problem,) = shown["problems"]
    assert reason in problem
    assert "set server.listen in moirae.yaml to a free port" in problem
    (process,) = [process for process in shown["processes"] if process["role"] == "server"]
    assert (process["state"], process["alive"]) == ("failed", False)
    assert reason in process["error"]
    # What another start has brought about, is as it was before any.
    server_role = ReconnectingRole(
        partial(database.connect_database, settings, "tests"), "server", 0.0
    )
    assert _status_json(root)[0] == 1
    server_role.heartbeat("listening on 127.0.0.1:1")
    # The error counts until the successor has worked for ten minutes.
    (problem,) = _status_json(root)[1]["problems"]
    assert problem.startswith("the server process ended by an error at ")
    assert reason in problem
    with database.connect_database(settings, "tests") as connection:
        connection.execute("UPDATE processes SET started_at = started_at - interval '10 minutes'")
    assert _status_json(root)[1]["problems"] == []
    for role in (server_role, supervisor):
        role.mark_ended()
        role.connection.close()


def test_changes_that_wait_for_a_restart_are_reported(root: Path) -> None:
    settings = load_settings_from_environment(root / "moirae.yaml")
    text = settings.file.read_text()
    with database.connect_database(settings, "tests") as connection:
        live = Role(connection, "live", 0.0)
        live.declare(digest_declarations(settings))
        live.heartbeat("running")
        assert _status_json(root)[1]["warnings"] == []
        settings.file.write_text(text.replace("  cpu:", "  ping:"))
        (warning,) = _status_json(root)[1]["warnings"]
        assert warning == (
            "moirae.yaml: restart `moirae up` for its changes to take effect: stream ping is new, "
            "stream cpu is gone"
        )
        settings.file.write_text(text)
        live.heartbeat("ended")
        settings.file.write_text(text.replace("  cpu:", "  ping:"))
        assert _status_json(root)[1]["warnings"] == []
    settings.file.write_text(text)
