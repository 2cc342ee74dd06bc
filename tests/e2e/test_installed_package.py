"""The wheel, installed into an empty environment, works without the sources."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from archiver.spark.paths import CLASS_ARCHIVE, JARS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[2]
MAX_BYTES = 1_200_000_000  # without the class archive, which set-up makes of it


def _run(*command: str, folder: Path) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    }
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:] + result.stdout[-1000:]
    return result.stdout


def test_wheel_is_set_up_offline_and_runs_a_workspace(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    _run(*build, "--wheel-dir", str(tmp_path / "dist"), str(ROOT), folder=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("moirae_monitoring-*.whl")
    target = tmp_path / "environment"
    venv.create(target, with_pip=True)
    _run(str(target / "bin" / "pip"), "install", "-q", str(wheel), folder=tmp_path)
    moirae = str(target / "bin" / "moirae")
    _run(moirae, "setup", "--from", str(JARS), folder=tmp_path)
    size = int(_run("du", "-sb", str(target), folder=tmp_path).split()[0])
    class_archive = (target / "share" / "moirae" / CLASS_ARCHIVE.name).stat().st_size
    print(f"{size / 1e6:,.0f} MB installed, of which {class_archive / 1e6:,.0f} MB class archive")
    assert size - class_archive <= MAX_BYTES
    workspace = tmp_path / "workspace"
    _run(moirae, "init", str(workspace), folder=tmp_path)
    _run(moirae, "up", "--drain", folder=workspace)
    assert "CpuHigh" in _run(moirae, "alerts", "list", "--all", folder=workspace)
    assert json.loads(_run(moirae, "status", "-o", "json", folder=workspace))["accounting"]["read"]
    _run(moirae, "doctor", folder=workspace)
    _run(moirae, "rules", "check", folder=workspace)
    query = "SELECT count(*) AS n FROM cpu"
    assert json.loads(_run(moirae, "query", query, "-o", "json", folder=workspace))
    _run(moirae, "backup", str(tmp_path / "backups"), folder=workspace)
    _run(moirae, "backup", "--verify", str(tmp_path / "backups"), folder=workspace)
    (tmp_path / "restored").mkdir()
    _run(moirae, "restore", str(tmp_path / "backups"), folder=tmp_path / "restored")
    _run(moirae, "doctor", folder=tmp_path / "restored")
