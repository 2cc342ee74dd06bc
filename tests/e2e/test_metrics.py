"""Metrics, probes and the alert `NoInput` of a running workspace."""

import json
import time
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

from moirae.cli import app
from moirae.runtime.roles import list_processes
from moirae.services import tokens
from tests.faults.harness import RULES, WORKSPACE, Stage, workspace

ALERT = """
SELECT state, ends_at IS NULL FROM alerts WHERE rule = 'moirae/NoInput' ORDER BY starts_at DESC
"""


@pytest.mark.slow
def test_running_processes_expose_metrics_and_input_that_stops_raises_an_alert() -> None:
    with workspace(WORKSPACE + "no_input: 4s\n", RULES) as root:
        system = Stage(root, seed=7, rate=50)
        try:
            system.up()
            system.producer.start()
            system.wait(lambda: system.archived_units() > 0, 120)
            system.wait(lambda: {"live", "server"} <= system.alive(), 60)
            families = _wait_for_metrics(system)
            _check_metrics(families)
            probe = ["status", "--workspace", str(root / "moirae.yaml"), "--process"]
            assert CliRunner().invoke(app, [*probe, "live"]).exit_code == 0
            system.producer.stop()
            system.wait(lambda: _alerts(system)[:1] == [("firing", True)], 90)
            listed = CliRunner().invoke(
                app, ["alerts", "list", "--rule", "NoInput", "-o", "json", *probe[1:3]]
            )
            alert = json.loads(listed.stdout)[0]
            assert alert["labels"] == {"alertname": "NoInput", "severity": "page"}
            row = '{"ts": "2026-01-01T00:00:00Z", "host": "h", "n": -1, "cpu": 1.0}\n'
            (system.producer.landing / "again.jsonl").write_text(row)
            system.wait(lambda: ("resolved", False) in _alerts(system), 60)
            system.down()
            assert CliRunner().invoke(app, [*probe, "live"]).exit_code == 1
        finally:
            system.end()


def _alerts(system: Stage) -> list[tuple[Any, ...]]:
    return system.connection.execute(ALERT).fetchall()


def _wait_for_metrics(system: Stage) -> dict[str, Any]:
    """The metrics once the live process has stored those of a batch with its heartbeat."""
    token = tokens.create_token(system.connection, "prometheus", "viewer")
    processes = {process["role"]: process for process in list_processes(system.connection)}
    address = processes["server"]["state"].removeprefix("listening on ")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/openmetrics-text; version=1.0.0",
    }
    deadline = time.monotonic() + 60
    while True:
        text = httpx.get(f"http://{address}/metrics", headers=headers, timeout=60).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        batches = families.get("moirae_live_batches")
        if batches is not None and any(sample.value > 0 for sample in batches.samples):
            return families
        assert time.monotonic() < deadline, text
        time.sleep(0.5)


def _check_metrics(families: dict[str, Any]) -> None:
    up = {s.labels["process"]: s.value for s in families["moirae_process_up"].samples}
    assert up["live"] == up["server"] == up["up"] == 1.0
    rules = {
        (s.labels["process"], s.labels["rule"])
        for s in families["moirae_rule_evaluation_seconds"].samples
    }
    assert ("live", "load/High") in rules
    assert families["moirae_live_batch_seconds"].type == "histogram"
