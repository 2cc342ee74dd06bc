"""The systemd units, by `systemd-analyze`."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy import DEPLOY

FOLDER = DEPLOY / "systemd"
UNITS = ("moirae.service", "moirae@.service")
MAX_EXPOSURE = 20  # of 100: 16 with the protections of the units, 96 without any

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root folder with the units, and with what they start."""
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    for unit in UNITS:
        shutil.copy(FOLDER / unit, units / unit)
    for program in ("opt/moirae/.venv/bin/moirae", "bin/kill"):
        file = tmp_path / program
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    for target in ("multi-user", "network-online", "sysinit", "basic", "shutdown"):
        (units / f"{target}.target").write_text("[Unit]\nDescription=target\n")
    return tmp_path


@needs_systemd
@pytest.mark.parametrize("unit", ["moirae.service", "moirae@live.service"])
def test_unit_is_valid(root: Path, unit: str) -> None:
    result = _analyze("verify", f"--root={root}", "--man=no", "--recursive-errors=no", unit)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@needs_systemd
def test_unknown_key_is_reported(root: Path) -> None:
    file = root / "etc" / "systemd" / "system" / "moirae.service"
    file.write_text(file.read_text().replace("NoNewPrivileges=", "NoNewPrivilege="))
    result = _analyze("verify", f"--root={root}", "--man=no", "moirae.service")
    assert "NoNewPrivilege" in result.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_exposure_is_low(root: Path, unit: str) -> None:
    name = unit.replace("@.", "@live.")
    options = ("--offline=true", f"--root={root}", f"--threshold={MAX_EXPOSURE}", "--no-pager")
    result = _analyze("security", *options, name)
    assert result.returncode == 0, result.stdout + result.stderr


def test_units_of_processes_have_the_same_protections() -> None:
    texts = [(FOLDER / unit).read_text() for unit in UNITS]
    protections = [text[text.index("NoNewPrivileges=") :] for text in texts]
    assert protections[0] == protections[1]


def test_exit_codes_that_a_restart_does_not_change_end_the_unit() -> None:
    for unit in UNITS:
        text = (FOLDER / unit).read_text()
        assert re.search(r"^RestartPreventExitStatus=1 2$", text, re.M)


def _analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )
