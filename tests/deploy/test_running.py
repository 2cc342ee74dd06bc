"""The deployment without containers: its workspace, services and settings as real processes.

Processes run one by one as in the compose file; the recall process has a home of its own, as on
Kubernetes. Prometheus is started if it is installed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg.conninfo import make_conninfo

import sql
import tests.broker
from tests.broker import JARS, Broker
from tests.deploy import DEPLOY
from tests.deploy.conftest import PASSWORD, create_database
from tests.deploy.running import (
    SERVICES,
    broker_settings,
    free_port,
    object_storage,
    running,
    wait_for,
)
from tests.deploy.test_grafana import EXPRESSIONS, QUERIES, expand

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not JARS.exists(), reason="no Kafka broker: make broker"),
]

NOW = datetime.now(UTC).replace(microsecond=0)
_START_TIMEOUT = 240  # seconds


class Deployment:
    """The running processes, by the names of the compose file."""

    def __init__(self, root: Path, environment: Mapping[str, str], dsn: str, broker: str) -> None:
        self.root = root
        self.dsn = dsn
        self.broker = broker
        self.environment = environment
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.files = {name: self._write_workspace(name) for name in ("state", "recall-cache")}
        self.tokens: dict[str, str] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def _write_workspace(self, home: str) -> Path:
        """The workspace of the containers, with another home and address."""
        folder = self.root / f"etc-{home}"
        shutil.copytree(DEPLOY / "workspace", folder)
        file = folder / "moirae.yaml"
        text = file.read_text()
        for old, new in (
            ("/var/lib/moirae", str(self.root / home)),
            ("0.0.0.0:8765", f"0.0.0.0:{self.port}"),
        ):
            assert old in text
            text = text.replace(old, new)
        file.write_text(text)
        return file

    def start(self, stack: ExitStack, name: str) -> None:
        """Start a service with the command of the compose file."""
        home = "recall-cache" if name == "recall" else "state"
        command = self._command(*SERVICES[name]["command"], home=home)
        process = running(command, self.root / f"{name}.log", self.environment)
        self.processes[name] = stack.enter_context(process)

    def _command(self, *arguments: str, home: str = "state") -> list[str]:
        file = str(self.files[home])
        return [sys.executable, "-m", "moirae", *arguments, "--workspace", file]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command, as by `docker compose run live`."""
        return subprocess.run(
            self._command(*arguments),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def is_healthy(self, name: str) -> bool:
        """By the health check of the compose file."""
        process = self.processes[name]
        assert process.poll() is None, (self.root / f"{name}.log").read_text()[-3000:]
        if name == "server":
            try:
                return httpx.get(f"{self.url}/-/healthy", timeout=10).status_code == 200
            except httpx.TransportError:
                return False
        test = SERVICES[name]["healthcheck"]["test"]
        assert test[:2] == ["CMD", "moirae"]
        return self.run(*test[2:]).returncode == 0

    def wait_until_healthy(self, name: str) -> None:
        wait_for(lambda: self.is_healthy(name), _START_TIMEOUT, self.root / f"{name}.log")

    def send(self, time: datetime, cpu: float, process: str) -> None:
        """A row of each stream, by Kafka and by HTTP."""
        ts = time.isoformat()
        row = {"ts": ts, "host": "alpha", "process": process, "user": f"{process}-user"}
        httpx.post(
            f"{self.url}/api/v1/ingest/process",
            content=json.dumps(row) + "\n",
            headers={
                "Authorization": f"Bearer {self.tokens['admin']}",
                "Content-Type": "application/x-ndjson",
            },
            timeout=60,
        ).raise_for_status()
        self.wait_for_rows("process", time)
        producer = Producer({"bootstrap.servers": self.broker})
        producer.produce("cpu", json.dumps({"ts": ts, "host": "alpha", "cpu": cpu}), key="alpha")
        assert producer.flush(60) == 0
        self.wait_for_rows("cpu", time)

    def wait_for_rows(self, stream: str, time: datetime) -> None:
        """Until a row of this time is archived."""
        with sql.connect(self.dsn, application_name="tests") as connection:
            wait_for(
                lambda: (
                    connection.execute(
                        "SELECT newest >= %s FROM streams WHERE name = %s", (time, stream)
                    ).fetchone()
                    == (True,)
                ),
                120,
                self.root / "live.log",
            )


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    if not JARS.exists():
        pytest.skip("no Kafka broker: make broker")
    root = tmp_path_factory.mktemp("deployment")
    storage_folder, broker_folder = root / "storage", root / "kafka"
    storage_folder.mkdir()
    broker_folder.mkdir()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(tests.broker, "_SETTINGS", broker_settings())
        broker = Broker(broker_folder)
        stack.callback(broker.kill)
        broker.start()
        _create_topics(broker.address)
        keys = stack.enter_context(object_storage(storage_folder))
        dsn = stack.enter_context(create_database())
        environment = {**keys, "MOIRAE_DATABASE": dsn, "MOIRAE_KAFKA": broker.address}
        deployed = Deployment(root, environment, dsn, broker.address)
        _start_processes(deployed, stack)
        yield deployed


def _create_topics(address: str) -> None:
    """As the service `topics` does."""
    options = dict(
        argument.removeprefix("--").partition("=")[::2]
        for argument in SERVICES["topics"]["command"][1:]
    )
    topic = NewTopic(
        options["topic"], num_partitions=int(options["partitions"]), replication_factor=1
    )
    client = AdminClient({"bootstrap.servers": address})
    for future in client.create_topics([topic]).values():
        future.result(60)


def _start_processes(deployed: Deployment, stack: ExitStack) -> None:
    """The steps of docs/howto/deploy-containers.md."""
    deployed.start(stack, "server")
    assert deployed.processes["server"].wait(120) != 0
    assert "moirae tokens create" in (deployed.root / "server.log").read_text()
    for role in ("admin", "viewer"):
        created = deployed.run("tokens", "create", role, "--role", role)
        assert created.returncode == 0, created.stderr
        deployed.tokens[role] = created.stdout.strip()
    names = ("server", "live", "recall")
    for name in names:
        deployed.start(stack, name)
    for name in names:
        deployed.wait_until_healthy(name)


def test_alert_from_kafka_shows_its_past_in_grafana(deployment: Deployment) -> None:
    deployment.send(NOW - timedelta(days=2), 98.5, "backup")
    deployment.send(NOW - timedelta(days=1), 97.5, "crawler")
    deployment.send(NOW - timedelta(hours=2), 10.0, "sshd")  # settles the events before
    log = deployment.root / "live.log"
    with sql.connect(deployment.dsn, application_name="tests") as connection:
        settled = """SELECT count(*) FROM contexts
            WHERE rule = 'hosts/CpuHigh' AND settled AND corpus IS NOT NULL"""
        wait_for(lambda: connection.execute(settled).fetchone() == (2,), 120, log)
    deployment.send(NOW, 96.5, "crawler")
    (firing,) = [query for title, query in QUERIES if title == "Firing alerts"]
    (similar,) = [query for title, query in QUERIES if title == "Similar past events"]
    grafana = make_conninfo(deployment.dsn, user="grafana", password=PASSWORD)
    with psycopg.connect(grafana, autocommit=True) as connection:
        alert = wait_for(lambda: connection.execute(expand(firing, "")).fetchone(), 120, log)
        assert alert[3] == "alpha: CPU at 96.5 %"
        hit = wait_for(
            lambda: connection.execute(expand(similar, alert[-1])).fetchone(),
            180,
            deployment.root / "recall.log",
        )
    assert hit[0] == 1
    assert hit[2] == NOW - timedelta(days=1)
    assert "process=crawler" in hit[4]


def test_storage_refuses_requests_without_keys(deployment: Deployment) -> None:
    url = deployment.environment["AWS_ENDPOINT_URL"]
    assert httpx.get(f"{url}/moirae?list-type=2").status_code == 403
    assert httpx.put(f"{url}/moirae/archive/probe", content=b"x").status_code == 403


@pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed (Debian: prometheus)"
)
def test_prometheus_scrapes_evaluates_and_notices_that_live_has_ended(
    deployment: Deployment, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/api/v1"
    configuration = _write_prometheus(deployment, tmp_path)
    command = [
        "prometheus",
        f"--config.file={configuration}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]

    def get(path: str, **parameters: str) -> Any:
        response = httpx.get(f"{url}/{path}", params=parameters, timeout=30)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def firing() -> set[str]:
        alerts = get("alerts")["alerts"]
        return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}

    def is_up() -> bool:
        try:
            targets = get("targets")["activeTargets"]
        except (httpx.TransportError, AssertionError):
            return False
        return [target["health"] for target in targets] == ["up"]

    log = tmp_path / "log"
    with running(command, log, {}):
        wait_for(is_up, 60, log)
        wait_for(lambda: "MoiraeWatchdog" in firing(), 60, log)
        groups = get("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert {rule["health"] for rule in rules} == {"ok"}
        for title, expression in EXPRESSIONS:
            get("query", query=expression.replace("$__rate_interval", "1m"))
            assert title
        (up,) = [expression for title, expression in EXPRESSIONS if title == "Processes"]
        values = {s["metric"]["process"]: s["value"][1] for s in get("query", query=up)["result"]}
        assert values == {"live": "1", "recall": "1", "server": "1"}
        assert not {"MoiraeNoLiveProcess", "MoiraeDown"} & firing()
        live = deployment.processes["live"]
        live.terminate()
        grace = re.fullmatch(r"(\d+)s", SERVICES["live"]["stop_grace_period"])
        assert grace is not None
        assert live.wait(int(grace[1])) == 0
        wait_for(lambda: "MoiraeNoLiveProcess" in firing(), 60, log)
        assert "MoiraeDown" not in firing()


def _write_prometheus(deployment: Deployment, folder: Path) -> Path:
    """Its files, with another address, and faster."""
    token = folder / "token"
    token.write_text(deployment.tokens["viewer"] + "\n")
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    for old, new in (
        ("/run/secrets/prometheus-token", str(token)),
        ("server:8765", f"127.0.0.1:{deployment.port}"),
        ("15s", "3s"),
    ):
        assert old in text
        text = text.replace(old, new)
    rules = (DEPLOY / "prometheus" / "moirae.rules.yml").read_text()
    head, name, tail = rules.partition("alert: MoiraeNoLiveProcess")
    (folder / "moirae.rules.yml").write_text(head + name + tail.replace("for: 2m", "for: 6s", 1))
    configuration = folder / "prometheus.yml"
    configuration.write_text(text)
    return configuration
