"""A sender whose alerts have very many names: they share one rule, nothing grows with them without end.

`MOIRAE_ALERT_NAMES=1000000` posts a million.
"""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from archiver.threads import start_daemon
from moirae.config.settings import load_settings_from_environment
from moirae.runtime.database import connect_database
from tests.commands import Commands
from tests.processes import find_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(3_000)]

_NAMES = int(os.environ.get("MOIRAE_ALERT_NAMES", "20000"))
_POST = 10_000  # alerts
_RULES = 50
_MAX_GROWTH = 1 << 30  # bytes of memory of a process
_TIMEOUT = 2_500.0  # seconds
_WORKSPACE = """
home: .moirae
server: {{listen: "127.0.0.1:{port}"}}
limits: {{external_rules: {rules}}}
resolve_timeout: 1d
"""


def _make_post(start: int) -> bytes:
    names = (f"Name {number}" for number in range(start, min(start + _POST, _NAMES)))
    return json.dumps([{"labels": {"alertname": name}} for name in names]).encode()


class _Memory:
    """The most memory of each process of a workspace, by its role."""

    def __init__(self, parent: int) -> None:
        self._parent = psutil.Process(parent)
        self.peaks: dict[str, int] = {}

    def watch(self, until: threading.Event) -> None:
        while not until.wait(0.5):
            for process in self._parent.children(recursive=True):
                with suppress(psutil.Error):
                    command = process.cmdline()
                    if "run" in command:
                        role = command[command.index("run") + 1]
                        size = process.memory_info().rss
                        self.peaks[role] = max(self.peaks.get(role, 0), size)


def test_many_names_take_little_memory(public_folder: Path) -> None:
    port = find_port()
    (public_folder / "moirae.yaml").write_text(_WORKSPACE.format(port=port, rules=_RULES))
    up = [sys.executable, "-m", "moirae", "up", "--parent", str(os.getpid())]
    settings = load_settings_from_environment(public_folder / "moirae.yaml")
    with (
        Commands(public_folder) as commands,
        connect_database(settings, "tests") as connection,
    ):
        token = commands.json("tokens", "create", "sender", "--role", "source")["token"]
        with (public_folder / "log").open("wb") as log:
            process = subprocess.Popen(up, cwd=public_folder, stdout=log, stderr=log)
        memory, ended = _Memory(process.pid), threading.Event()
        watcher = start_daemon(lambda: memory.watch(ended), "memory")

        def post(content: bytes) -> bool:
            with suppress(httpx.TransportError):
                answer = httpx.post(
                    f"http://127.0.0.1:{port}/api/v2/alerts",
                    content=content,
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=60,
                )
                assert answer.status_code in (200, 503), answer.text
                return answer.status_code == 200
            return False

        def count(statement: str) -> int:
            row = connection.execute(statement.encode()).fetchone()
            assert row is not None
            return int(row[0])

        try:
            # What the processes take with few alerts.
            wait_until(lambda: post(_make_post(_NAMES - 10)), 120)
            wait_until(lambda: count("SELECT count(*) FROM alerts") == 10, 120)
            before = dict(memory.peaks)
            for start in range(0, _NAMES, _POST):
                wait_until(lambda start=start: post(_make_post(start)), _TIMEOUT)  # type: ignore[misc]
            wait_until(lambda: count("SELECT count(*) FROM alerts") == _NAMES, _TIMEOUT)
            rules = count("SELECT count(DISTINCT rule) FROM alerts")
            names = count("SELECT count(*) FROM external_rules")
            accounting = commands.json("status")["streams"]["external_alerts"]["accounting"]
        finally:
            ended.set()
            watcher.join()
            process.terminate()
            process.wait(120)
    growth = {role: size - before.get(role, 0) for role, size in memory.peaks.items()}
    print({role: f"+{size >> 20} MiB" for role, size in growth.items()}, flush=True)
    assert rules == _RULES + 1
    assert names <= 100_000
    assert accounting["read"] == accounting["archived"] == _NAMES + 10
    assert all(size < _MAX_GROWTH for size in growth.values())
