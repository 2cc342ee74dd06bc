"""Kills on a Spark cluster: executors, workers, the master, the live and the recall process, at random moments;
object storage and PostgreSQL are away for some seconds.

Each accepted row is archived once, each alert is raised once, and each recall ends with the answer
of an undisturbed run. `MOIRAE_FAULT_SEED` chooses the moments, `MOIRAE_FAULT_KILLS` how many faults
of each kind there are.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from sql import OperationalError
from tests import cluster
from tests.cluster import SECRET, SECRET_VARIABLE, Cluster
from tests.commands import Commands
from tests.faults.harness import kill, workspace
from tests.faults.postgresql import Server, crash
from tests.machines import Machines, machines
from tests.store import BUCKET, Store

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "1"))
_TIMEOUT = 900.0  # seconds; a loaded machine takes minutes
_MAX_WAIT = 6.0  # seconds until a fault, after rows were archived
_MAX_AWAY = 20.0  # seconds
_POST_ROWS, _PUT_ROWS = 7, 40
RULES = """
groups:
- name: shared
  rules:
  - alert: Seventh
    expr: SELECT n, ts FROM posted WHERE n % 7 = 0
    key: [n]
    context:
      near: {sql: "SELECT n AS other FROM posted WHERE n % 3 = 0", within: 5s}
    recall:
      earlier: {sql: "SELECT count(*) AS n, max(h.n) AS last FROM posted h WHERE h.n % 7 = 0"}
"""

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(
        cluster.find_isolation() is None,
        reason="no namespaces: needs unshare, and the right to mount",
    ),
]


@dataclass
class _System:
    """What faults are injected into."""

    machines: Machines
    cluster: Cluster
    store: Store
    database: Server
    rng: random.Random

    def archive_more(self) -> None:
        """Wait until rows that are accepted from now on are counted."""
        before = self.machines.counted()
        self.machines.wait(lambda: self.machines.counted() > before, _TIMEOUT)

    def inject(self, fault: str) -> None:
        """Inject a fault, and let the system continue."""
        faults: dict[str, Callable[[], None]] = {
            "executor": lambda: self._kill(self._choose_executor),
            "worker": self._replace_worker,
            "master": self._replace_master,
            "live": lambda: self._kill(lambda: self.machines.one.child("live")),
            "recall": lambda: self._kill(lambda: self.machines.one.child("recall")),
            "storage refuses": self._refuse_storage,
            "storage hangs": self._freeze_storage,
            "database": self._crash_database,
        }
        faults[fault]()

    def _kill(self, find: Callable[[], psutil.Process | None]) -> None:
        self.machines.wait(lambda: kill(find()), _TIMEOUT)

    def _choose_executor(self) -> psutil.Process | None:
        executors = self.cluster.executors()
        return self.rng.choice(executors) if executors else None

    def _replace_worker(self) -> None:
        worker = self.rng.choice(self.cluster.workers)
        self.cluster.workers.remove(worker)
        worker.kill()
        self._sleep()
        self.cluster.start_worker()

    def _replace_master(self) -> None:
        assert self.cluster.master is not None
        self.cluster.master.kill()
        self._sleep()
        self.cluster.start_master()

    def _refuse_storage(self) -> None:
        self.store.kill()
        self._sleep()
        assert self.store.start()

    def _freeze_storage(self) -> None:
        self.store.freeze()
        self._sleep()
        self.store.thaw()

    def _crash_database(self) -> None:
        crash(self.database.folder, signal.SIGKILL)
        self._sleep()
        self.database.start()
        self.machines.connect_again(_TIMEOUT)

    def _sleep(self) -> None:
        time.sleep(self.rng.uniform(1, _MAX_AWAY))


@contextmanager
def _system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_System]:
    (tmp_path / "store").mkdir()
    store = Store(tmp_path / "store")
    for name, value in {**store.environment, SECRET_VARIABLE: SECRET}.items():
        monkeypatch.setenv(name, value)
    with workspace("", "") as folder:
        server = Server(folder)
        try:
            with cluster.cluster(tmp_path / "cluster", os.environ) as running:
                more = (
                    f"engine: spark\nchunks: {{rows: 2000, age: 10s}}{running.workspace_settings()}"
                )
                bucket = f"s3://{BUCKET}/faults"
                with machines(tmp_path, bucket, more, RULES, server.dsn) as both:
                    yield _System(both, running, store, server, random.Random(SEED))
        finally:
            server.stop()
            store.kill()


def _deliver(running: Machines, stop: threading.Event, failures: list[BaseException]) -> None:
    """Put and post rows until `stop` is set; what is not accepted is left out."""
    while not stop.wait(0.5):
        try:
            running.put(_PUT_ROWS)
        except Exception as error:  # the storage is away: the object may be there or not
            failures.append(error)
        try:
            running.post(_POST_ROWS)
        except (OperationalError, AttributeError) as error:
            failures.append(error)


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("executor", "worker", "live", "recall"), id="processes"),
        pytest.param(("master",), id="master"),
        pytest.param(("storage refuses", "storage hangs", "database"), id="services"),
    ],
)
def test_accepted_rows_and_alerts_are_there_once(
    kinds: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {SEED}, {KILLS} × {', '.join(kinds)}")
    began = time.monotonic()
    with _system(tmp_path, monkeypatch) as system:
        running = system.machines
        running.one.up()
        running.wait(lambda: running.post(_POST_ROWS), _TIMEOUT)
        stop = threading.Event()
        failures: list[BaseException] = []
        delivery = threading.Thread(target=_deliver, args=(running, stop, failures))
        delivery.start()
        try:
            faults = [*kinds] * KILLS
            system.rng.shuffle(faults)
            for fault in faults:
                system.archive_more()
                time.sleep(system.rng.uniform(0, _MAX_WAIT))
                print(f"{_elapsed(began)} {fault}: {running.counted()} rows before", flush=True)
                system.inject(fault)
            system.archive_more()
            print(f"{_elapsed(began)} all continue", flush=True)
        finally:
            stop.set()
            delivery.join()
        running.wait_until_archived(_TIMEOUT)
        running.one.down()
        running.one.drain()
        running.check()
        figures = _check_alerts(running)
        print(f"{_elapsed(began)} {figures}; {len(failures)} deliveries refused", flush=True)


def _elapsed(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def _check_alerts(running: Machines) -> dict[str, Any]:
    """Each seventh of the posted rows has raised one alert, whose recall counts those before it."""
    archived = sorted(running.archived("posted"))
    expected = [number for number in archived if number % 7 == 0]
    with Commands(running.one.root) as commands:
        events = commands.exported("events")
        alerts = commands.exported("alerts")
        recalls = commands.exported("recalls")
    assert sorted(event["attributes"]["n"] for event in events) == expected
    assert sorted(int(alert["key"]["n"]) for alert in alerts) == expected
    assert {alert["state"] for alert in alerts} == {"resolved"}
    numbers = {event["eid"]: event["attributes"]["n"] for event in events}
    answers = {numbers[recall["eid"]]: recall for recall in recalls}
    assert sorted(answers) == expected
    assert len(recalls) == len(expected)
    for position, number in enumerate(expected):
        last = expected[position - 1] if position else None
        assert answers[number]["state"] == "done", answers[number]
        assert answers[number]["answer"] == [{"n": position, "last": last}], answers[number]
    return {"rows": running.counted(), "alerts": len(alerts)}
