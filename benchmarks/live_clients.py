"""A1: alert latency with 100 live clients and one that never reads, against none, in one run.

One workspace at 500 rows per second; phases without and with clients alternate. Latency is the
time from the creation of a row to its alert's row. Beside it: the time until clients have an alert.
"""

import asyncio
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
from psycopg import Connection

from benchmarks.fixtures import moirae_up, temporary_workspace
from benchmarks.live_stream import CPU_WORKSPACE, CpuStream, repeat_at_file_interval
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database, list_processes
from moirae.services import tokens
from sql.alerts import AlertGateway

_REPETITIONS = 5
_CLIENTS = 100
_WARM_UP_SECONDS = 20.0
_PHASE_SECONDS = 20.0
_RULES = """
groups:
- name: bench
  rules:
  - alert: Filter
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 98
    key: [n]
    id: [n]
    keep_firing_for: 1s
"""


@dataclass
class _Clients:
    """Live clients in a thread of their own; each notes the delays of the alerts it gets."""

    url: str
    token: str
    delays: list[float] = field(default_factory=list)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow_all(self) -> None:
        """Follow alerts until stopped."""
        headers = {"Authorization": f"Bearer {self.token}"}
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(headers=headers, timeout=None, limits=limits) as client:
            tasks = [asyncio.create_task(self._follow(client)) for _ in range(_CLIENTS)]
            await self._stop.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, client: httpx.AsyncClient) -> None:
        params = {"kind": "alert"}
        async with client.stream("GET", f"{self.url}/api/v1/live", params=params) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: ") and '"state":"firing"' in line:
                    alert = json.loads(line.removeprefix("data: "))
                    created_at = datetime.fromisoformat(alert["starts_at"])
                    self.delays.append((datetime.now(UTC) - created_at).total_seconds())

    def stop(self) -> None:
        self._stop.set()


def run() -> list[BenchmarkResult]:
    """Measure phases without and with clients alternately."""
    noise: list[float] = []
    idle: list[float] = []
    ratios: list[float] = []
    arrivals: list[float] = []
    with temporary_workspace(CPU_WORKSPACE, _RULES) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with (
            database.connect_database(settings, "benchmark") as connection,
            moirae_up(settings, root / "log"),
            _write_rows(CpuStream(_make_folder(root / "landing"), seed=1)),
        ):
            token = tokens.create_token(connection, "benchmark", "viewer")
            url = _await_server(connection)
            _await_alert(connection)
            time.sleep(_WARM_UP_SECONDS)
            for repetition in range(_REPETITIONS):
                noise.append(time_noise_kernel())
                without = _measure_phase(connection)
                with _connect_clients(url, token) as clients:
                    having = _measure_phase(connection)
                idle.append(without)
                ratios.append(having / without)
                arrivals.append(statistics.median(clients.delays))
                print(
                    f"{repetition + 1}/{_REPETITIONS} p50 {without:.3f} s, with clients "
                    f"{having:.3f} s, at clients {arrivals[-1]:.3f} s",
                    file=sys.stderr,
                )
    result = make_result(
        "A1",
        f"alert latency with {_CLIENTS} live clients and one that never reads ÷ without",
        ratios,
        target="≤ 1.1",
        details={
            "median latency without clients, s": rounded_median(idle, 3),
            "median time until clients have the alert, s": rounded_median(arrivals, 3),
        },
        noise=noise,
    )
    return [result]


def _make_folder(folder: Any) -> Any:
    folder.mkdir()
    return folder


@contextmanager
def _write_rows(stream: CpuStream) -> Iterator[None]:
    """Write rows in a thread for the duration of a block."""
    stop = threading.Event()

    def write(now: datetime) -> bool:
        stream.write_file(stream.make_rows(now))
        return not stop.is_set()

    thread = threading.Thread(target=repeat_at_file_interval, args=(write,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _await_server(connection: Connection[Any]) -> str:
    """The URL of the server once it listens."""
    while True:
        for process in list_processes(connection):
            if process["role"] == "server" and process["state"].startswith("listening on "):
                return f"http://{process['state'].removeprefix('listening on ')}"
        time.sleep(0.5)


def _await_alert(connection: Connection[Any]) -> None:
    """Wait until rules are evaluated."""
    while not AlertGateway(connection).count_alerts():
        time.sleep(0.5)


def _measure_phase(connection: Connection[Any]) -> float:
    """The median latency of the alerts that are raised in a phase, in seconds."""
    started_at = datetime.now(UTC)
    time.sleep(_PHASE_SECONDS)
    rows = connection.execute(
        "SELECT extract(epoch FROM raised_at - starts_at)::float8 FROM alerts WHERE raised_at > %s",
        (started_at,),
    )
    delays: Sequence[float] = [row[0] for row in rows]
    return statistics.median(delays)


@contextmanager
def _connect_clients(url: str, token: str) -> Iterator[_Clients]:
    """The clients, and a connection that never reads, for the duration of a block."""
    clients = _Clients(url, token)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(clients.follow_all(),))
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect((host, int(port)))
        head = f"GET /api/v1/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
        silent.sendall(head.encode())
        thread.start()
        try:
            yield clients
        finally:
            loop.call_soon_threadsafe(clients.stop)
            thread.join()
            with suppress(RuntimeError):
                loop.close()
