"""The compose file, by the schema of the specification and by what its services need."""

import re
import subprocess
import sys

from moirae.cli.processes import run_app
from tests.deploy import DEPLOY, read_yaml

FILE = DEPLOY / "compose" / "compose.yaml"
COMPOSE = read_yaml(FILE)
SERVICES = COMPOSE["services"]
MOIRAE = ("live", "recall", "server")


def test_file_follows_the_schema() -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "check_jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            str(FILE),
        ],
        check=True,
    )


def test_has_all_services_at_fixed_versions() -> None:
    others = {"postgres", "storage", "bucket", "kafka", "topics", "prometheus", "grafana"}
    assert set(SERVICES) == {*MOIRAE, *others}
    for name in others:
        assert re.search(r":v?\d[\w.]*$", SERVICES[name]["image"]), name


def test_each_password_is_required_and_listed_in_the_example() -> None:
    text = FILE.read_text()
    variables = dict(re.findall(r"\$\{(\w+)(:\?|:-)?", text))
    secrets = {name for name in variables if re.search("PASSWORD|KEY", name)}
    assert {name for name in secrets if variables[name] != ":?"} == set()
    example = (FILE.parent / ".env.example").read_text()
    assert set(re.findall(r"^(\w+)=$", example, re.M)) == secrets
    assert re.findall(r"^\w+=.+$", example, re.M) == []
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|ACCESS_KEY", name):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), name


def test_mounted_files_exist() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume["target"] if isinstance(volume, dict) else volume.partition(":")[0]
            if source.startswith("."):
                assert (FILE.parent / source).exists(), (name, source)
            elif not isinstance(volume, dict):
                assert source in COMPOSE["volumes"], (name, source)


def test_what_others_wait_for_has_a_health_check() -> None:
    for name, service in SERVICES.items():
        requirements = service.get("depends_on", {})
        if isinstance(requirements, list):
            assert set(requirements) <= set(SERVICES)
            continue
        for other, requirement in requirements.items():
            if requirement["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], (name, other)


def test_processes_are_commands_and_report_their_health() -> None:
    names = {command.callback.__name__ for command in run_app.registered_commands}
    for name in MOIRAE:
        service = SERVICES[name]
        assert service["command"][:2] == ["run", name]
        assert name in names
        test = service["healthcheck"]["test"]
        if name == "server":
            assert "/-/healthy" in test[-1]
        else:
            assert test == ["CMD", "moirae", "status", "--process", name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_environment_sets_the_variables_of_the_workspace() -> None:
    workspace = (DEPLOY / "workspace" / "moirae.yaml").read_text()
    used = set(re.findall(r"\$\{(\w+)\}", workspace))
    assert used == {"MOIRAE_DATABASE", "MOIRAE_KAFKA"}
    for name in MOIRAE:
        assert used <= SERVICES[name]["environment"].keys()


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_bucket_of_the_archive_is_created() -> None:
    archive = read_yaml(DEPLOY / "workspace" / "moirae.yaml")["archive"]
    bucket = archive.removeprefix("s3://").partition("/")[0]
    assert f"s3.bucket.create -name={bucket} " in SERVICES["bucket"]["command"][0]


def test_topics_of_the_workspace_are_created() -> None:
    streams = read_yaml(DEPLOY / "workspace" / "moirae.yaml")["streams"]
    topics = {s["source"]["kafka"]["topic"] for s in streams.values() if "kafka" in s["source"]}
    created = {a.removeprefix("--topic=") for a in SERVICES["topics"]["command"] if "topic=" in a}
    assert created == topics
