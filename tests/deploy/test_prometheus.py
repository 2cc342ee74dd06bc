"""Prometheus: expressions are parsed, and tested by `promtool` where it is installed."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest

import sql
from moirae.live.metrics import LiveMetrics
from moirae.server.routes.metrics import collect_metrics
from recall.worker.metrics import RecallMetrics
from tests.deploy import DEPLOY, ROOT, read_yaml
from tests.deploy.test_grafana import EXPRESSIONS

FOLDER = DEPLOY / "prometheus"
RULES = FOLDER / "moirae.rules.yml"
ALERTS = [rule for group in read_yaml(RULES)["groups"] for rule in group["rules"]]
_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "info": ("_info",),
}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)


@pytest.fixture(scope="module")
def metric_names(database: str) -> set[str]:
    """The names of all metrics that `/metrics` has."""
    with sql.connect(database, application_name="tests") as connection:
        families = list(collect_metrics(connection))
    families += LiveMetrics().registry.collect()
    families += RecallMetrics().registry.collect()
    return {family.name + suffix for family in families for suffix in _SUFFIXES[family.type]}


def _metrics(expression: str) -> Iterator[str]:
    promql_parser.parse(expression)
    return (name for name in re.findall(r"\bmoirae_\w+", expression))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_rule_reads_metrics_that_exist(alert: dict[str, Any], metric_names: set[str]) -> None:
    assert set(_metrics(alert["expr"])) - metric_names == set()
    assert alert["labels"]["severity"] in {"page", "ticket", "none"}
    assert alert["annotations"]["summary"]


def test_panels_read_metrics_that_exist(metric_names: set[str]) -> None:
    used = {m for _, text in EXPRESSIONS for m in _metrics(text.replace("$__rate_interval", "1m"))}
    assert used - metric_names == set()
    assert len(used) > 5


def test_dead_mans_switch_always_fires() -> None:
    (alert,) = [alert for alert in ALERTS if alert["alert"] == "MoiraeWatchdog"]
    expression = promql_parser.parse(alert["expr"])
    assert expression.prettify() == "vector(1)"
    assert "for" not in alert


def test_configuration_names_the_rules_and_the_token_of_the_compose_file() -> None:
    configuration = read_yaml(FOLDER / "prometheus.yml")
    assert configuration["rule_files"] == [RULES.name]
    compose = read_yaml(DEPLOY / "compose" / "compose.yaml")
    (secret,) = compose["services"]["prometheus"]["secrets"]
    workspace = read_yaml(DEPLOY / "workspace" / "moirae.yaml")["server"]
    jobs = configuration["scrape_configs"]
    assert [job.get("metrics_path", "/metrics") for job in jobs] == ["/metrics", "/api/v1/norms"]
    for job in jobs:
        assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
        host, _, port = job["static_configs"][0]["targets"][0].partition(":")
        assert host in compose["services"]
        assert host in workspace["hosts"]
        assert port == workspace["listen"].rpartition(":")[2]


@needs_promtool
def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    text = (FOLDER / "prometheus.yml").read_text()
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(text.replace("/run/secrets/prometheus-token", str(token)))
    shutil.copy(RULES, tmp_path)
    subprocess.run(["promtool", "check", "config", str(configuration)], check=True)


@needs_promtool
def test_rules_fire_when_they_should() -> None:
    tests = ROOT / "tests" / "deploy" / "prometheus_rules.yml"
    subprocess.run(["promtool", "test", "rules", str(tests)], check=True)


def test_each_rule_has_a_test() -> None:
    cases = read_yaml(ROOT / "tests" / "deploy" / "prometheus_rules.yml")["tests"]
    tested = {check["alertname"] for case in cases for check in case["alert_rule_test"]}
    assert tested == {alert["alert"] for alert in ALERTS}
