"""What the demo's cluster needs, and the workspace on it."""

import os
from pathlib import Path

import pytest

from moirae.config import build_spark_settings
from moirae.config.settings import load_settings
from moirae.demo import cluster
from moirae.demo.cluster import SECRET_VARIABLE, WORKERS, describe_workspace, find_programs
from moirae.demo.run import create_workspace
from moirae.errors import MoiraeError


def test_missing_storage_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)
    with pytest.raises(MoiraeError, match=r"object storage is not installed.*make setup"):
        find_programs()


def test_missing_java_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "shutil.which", lambda program, path=None: None if "java" in program else f"/bin/{program}"
    )
    with pytest.raises(MoiraeError, match="Java is missing: install"):
        find_programs()


def test_workspace_has_a_core_of_each_worker_for_its_processes(tmp_path: Path) -> None:
    file = create_workspace(tmp_path / "demo", on_cluster=True).file
    dsn = "postgresql:///moirae?host=/a%20folder"
    with file.open("a") as text:
        text.write(describe_workspace(dsn, "spark://127.0.0.1:7077"))
    settings = load_settings(file, {**os.environ, SECRET_VARIABLE: "hidden"})
    assert settings.database is not None
    assert settings.database.get_secret_value() == dsn
    assert settings.archive == "s3://demo/archive"
    cores = [build_spark_settings(settings, p)["spark.cores.max"] for p in ("live", "recall")]
    assert sum(map(int, cores)) == WORKERS


def test_process_that_ends_at_once_is_reported_with_its_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["sh", "-c", "echo no such option; exit 3"]
    with (
        pytest.raises(MoiraeError, match=r"log: did not start: no such option"),
        cluster._run(command, log, None) as process,
    ):
        cluster._wait(process, log, lambda: False)
    assert process.returncode == 3
