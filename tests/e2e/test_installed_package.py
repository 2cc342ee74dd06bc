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
MAX_BYTES = 1.2e9  # as `du -sb` counts, with the class archive that set-up makes of it


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


def test_wheel_is_set_up_offline_and_runs_a_workspace(public_folder: Path) -> None:
    """The embedded database of root runs as another user, which has to get at its programs."""
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    _run(*build, "--wheel-dir", str(public_folder / "dist"), str(ROOT), folder=public_folder)
    (wheel,) = (public_folder / "dist").glob("moirae_monitoring-*.whl")
    target = public_folder / "environment"
    venv.create(target, with_pip=True)
    _run(str(target / "bin" / "pip"), "install", "-q", str(wheel), folder=public_folder)
    moirae = str(target / "bin" / "moirae")
    _run(moirae, "setup", "--from", str(JARS), folder=public_folder)
    size = int(_run("du", "-sb", str(target), folder=public_folder).split()[0])
    class_archive = (target / "share" / "moirae" / CLASS_ARCHIVE.name).stat().st_size
    print(f"{size / 1e6:,.0f} MB installed, of which {class_archive / 1e6:,.0f} MB class archive")
    assert size <= MAX_BYTES
    workspace = public_folder / "workspace"
    _run(moirae, "init", str(workspace), folder=public_folder)
    _run(moirae, "up", "--drain", folder=workspace)
    assert "CpuHigh" in _run(moirae, "alerts", "list", "--all", folder=workspace)
    assert json.loads(_run(moirae, "status", "-o", "json", folder=workspace))["accounting"]["read"]
    _run(moirae, "doctor", folder=workspace)
    _run(moirae, "rules", "check", folder=workspace)
    query = "SELECT count(*) AS n FROM cpu"
    assert json.loads(_run(moirae, "query", query, "-o", "json", folder=workspace))
    _run(moirae, "backup", str(public_folder / "backups"), folder=workspace)
    _run(moirae, "backup", "--verify", str(public_folder / "backups"), folder=workspace)
    (public_folder / "restored").mkdir()
    _run(moirae, "restore", str(public_folder / "backups"), folder=public_folder / "restored")
    _run(moirae, "doctor", folder=public_folder / "restored")
