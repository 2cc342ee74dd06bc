"""A running server of a workspace, with a token for each role."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest
from psycopg import Connection

from moirae.config.settings import Settings, load_settings_from_environment
from moirae.deployments import RuleRegistry
from moirae.rules import Definition, read_rule_files
from moirae.runtime import database, list_processes
from moirae.runtime.storage.landing_folder import LandingFolder
from moirae.server.run import run_server
from moirae.services import child, tokens
from tests.workspaces import workspace

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
_START_TIMEOUT = 90  # seconds
_END_TIMEOUT = 90  # seconds
_LISTENING = "listening on "


@dataclass
class Served:
    """A running server, and a token for each role."""

    settings: Settings
    connection: Connection[Any]
    process: psutil.Process
    log: Path
    url: str
    tokens: dict[str, str]

    def ask(
        self, method: str, path: str, role: str | None = "admin", **options: Any
    ) -> httpx.Response:
        """A request with the token of a role."""
        headers = dict(options.pop("headers", {}))
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        return httpx.request(method, self.url + path, headers=headers, timeout=180, **options)

    def post(
        self, content: bytes | str, headers: dict[str, str] = LINES, **options: Any
    ) -> httpx.Response:
        """Rows for the stream `cpu`."""
        options.setdefault("role", "operator")
        return self.ask(
            "POST",
            "/api/v1/ingest/cpu",
            content=content,
            headers={**headers, **options.pop("add", {})},
            **options,
        )

    def landed(self) -> dict[str, bytes]:
        """What lies in the landing folder, by name."""
        return {
            batch.name: batch.path.open("rb").read()
            for batch in LandingFolder(self.settings.home, "cpu").pending_batches()
        }

    def clear(self) -> None:
        """An empty landing folder."""
        landing = LandingFolder(self.settings.home, "cpu")
        for batch in landing.pending_batches():
            landing.remove(batch.path)

    def token_file(self, role: str) -> Path:
        """A file with the token of a role."""
        file = self.log.with_name(f"token-{role}")
        file.write_text(self.tokens[role] + "\n")
        return file

    def restart(self) -> None:
        """Kill the server and start it again at the same port."""
        self.process.kill()
        self.process.wait(30)
        settings_file = self.settings.file
        text = settings_file.read_text()
        port = self.url.rpartition(":")[2]
        settings_file.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        self.process, self.url = _start(settings_file, self.log)


def apply_rules(served: Served) -> None:
    """Apply the rules of the workspace, whose events have a host and a cpu, without a check by Spark."""
    rules, problems = read_rule_files(
        served.settings.find_rule_files(), served.settings.table_names
    )
    assert not problems
    key = ("host",)
    definitions = [
        Definition(rule, {"host": "string", "cpu": "double"}, key, key) for rule in rules.rules
    ]
    RuleRegistry(served.connection).apply(definitions)


@contextmanager
def serve(workspace_text: str, rules: str) -> Iterator[Served]:
    """A workspace with a running server."""
    with workspace(workspace_text, rules) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "tests") as connection:
            token_by_role: dict[str, str] = {
                role: tokens.create_token(connection, role, role) for role in tokens.TOKEN_ROLES
            }
            log = root / "server.log"
            process, url = _start(settings.file, log)
            served = Served(settings, connection, process, log, url, token_by_role)
            try:
                yield served
            finally:
                served.process.terminate()
                assert served.process.wait(_END_TIMEOUT) in (0, None)


@contextmanager
def serve_here(workspace_text: str, rules: str) -> Iterator[Served]:
    """A workspace with a server in this process, where operations of child processes run, too."""
    stop = threading.Event()
    with workspace(workspace_text, rules) as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            child, "_start_child", lambda request: orjson.loads(child.run_request(request))
        )
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "tests") as connection:
            token_by_role: dict[str, str] = {
                role: tokens.create_token(connection, role, role) for role in tokens.TOKEN_ROLES
            }
            server = threading.Thread(target=run_server, args=(settings, stop), daemon=True)
            server.start()
            try:
                url = _await_url(connection, server)
                here = psutil.Process()
                yield Served(settings, connection, here, root / "log", url, token_by_role)
            finally:
                stop.set()
                server.join(30)


def _await_url(connection: Connection[Any], server: threading.Thread) -> str:
    deadline = time.monotonic() + _START_TIMEOUT
    while True:
        for process in list_processes(connection):
            if process["role"] == "server" and process["state"].startswith(_LISTENING):
                return f"http://{process['state'].removeprefix(_LISTENING)}"
        assert server.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _start(settings_file: Path, log: Path) -> tuple[psutil.Process, str]:
    command = [sys.executable, "-m", "moirae", "run", "server", "--workspace", str(settings_file)]
    log.write_bytes(b"")
    with log.open("wb") as out:
        process = psutil.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + _START_TIMEOUT
    while '"server_listens"' not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    line = next(line for line in log.read_text().splitlines() if "server_listens" in line)
    return process, f"http://{json.loads(line)['address']}"
