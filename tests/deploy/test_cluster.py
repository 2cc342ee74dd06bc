"""The files of a cluster: they add to the compose file and change the workspace in a few keys."""

import re
import subprocess
import sys
from pathlib import Path

from moirae.config import build_spark_settings
from moirae.config.settings import load_settings
from tests.deploy import DEPLOY, read_yaml

FOLDER = DEPLOY / "cluster"
FILE = FOLDER / "compose.yaml"
COMPOSE = read_yaml(FILE)
BASE = read_yaml(DEPLOY / "compose" / "compose.yaml")
PROCESSES = ("live", "recall", "server")
SPARK = ("spark-master", "spark-worker")


def test_file_follows_the_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*command, str(FILE)], check=True)


def test_workspace_differs_in_the_keys_of_a_cluster_alone(tmp_path: Path) -> None:
    workspace = read_yaml(FOLDER / "moirae.yaml")
    added = {key: workspace.pop(key) for key in ("landing", "engine", "spark")}
    assert workspace == read_yaml(DEPLOY / "workspace" / "moirae.yaml")
    assert added["landing"].startswith("s3://")
    (tmp_path / "moirae.yaml").write_text((FOLDER / "moirae.yaml").read_text())
    environment = {
        "MOIRAE_DATABASE": "host=postgres dbname=moirae",
        "MOIRAE_KAFKA": "kafka:9092",
        "MOIRAE_SPARK_SECRET": "secret",
    }
    settings = load_settings(tmp_path / "moirae.yaml", environment)
    conf = build_spark_settings(settings, "live")
    assert conf["spark.authenticate.secret"] == "secret"
    host, _, port = settings.spark.master.removeprefix("spark://").partition(":")
    assert host == "spark-master"
    assert f"--port {port} " in COMPOSE["services"]["spark-master"]["command"][0]


def test_processes_and_daemons_have_the_same_secret() -> None:
    assert set(COMPOSE["services"]) == {*PROCESSES, *SPARK}
    for name in PROCESSES:
        service = COMPOSE["services"][name]
        assert name in BASE["services"]
        assert re.match(
            r"\$\{MOIRAE_SPARK_SECRET:\?", service["environment"]["MOIRAE_SPARK_SECRET"]
        )
        (mounted,) = service["volumes"]
        # It takes the place of the file that the other compose file mounts.
        target = mounted.split(":")[1]
        assert f"../workspace/moirae.yaml:{target}:ro" in BASE["services"][name]["volumes"]
    for name in SPARK:
        service = COMPOSE["services"][name]
        environment = service["environment"]
        assert re.match(r"\$\{MOIRAE_SPARK_SECRET:\?", environment["_SPARK_AUTH_SECRET"])
        options = environment["SPARK_DAEMON_OPTIONS"].split()
        assert set(options) == {
            "-Dspark.authenticate=true",
            "-Dspark.network.crypto.enabled=true",
            "-Dspark.master.rest.enabled=false",
        }
        assert "$$SPARK_DAEMON_OPTIONS" in service["command"][0]
        assert "ports" not in service
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["image"] == BASE["services"]["live"]["image"]


def test_workers_have_the_keys_of_the_bucket_and_room_for_all_processes() -> None:
    worker = COMPOSE["services"]["spark-worker"]
    for name, value in BASE["services"]["live"]["environment"].items():
        if name.startswith("AWS_"):
            assert worker["environment"][name] == value
    cores = int(re.search(r"--cores (\d+)", worker["command"][0])[1])  # type: ignore[index]
    workers = int(re.search(r"--scale spark-worker=(\d+)", FILE.read_text())[1])  # type: ignore[index]
    needed = read_yaml(FOLDER / "moirae.yaml")["spark"]["cores"]
    assert sum(needed.values()) <= cores * workers
