"""The child process `moirae up` of the demo, its log file, and the errors that quote the log."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from moirae.demo.up_process import UpProcess, run_up
from moirae.errors import MoiraeError
from moirae.runtime.logs import LogFormat

pytestmark = pytest.mark.processes


def _exited_process(code: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    process.wait(30)
    return process


def _await_exit(up: UpProcess) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        up.check_running()
        time.sleep(0.05)


def test_output_of_up_goes_to_the_log_file_and_ends_the_error_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log_file = tmp_path / "up.log"
    log_file.write_text("from an earlier start\n")
    up_process = run_up(tmp_path / "missing.yaml", log_file, LogFormat.TEXT)
    with up_process as up, pytest.raises(MoiraeError) as failure:
        _await_exit(up)
    first_line, *last_lines = str(failure.value).splitlines()
    assert first_line.startswith(f"{log_file}: `moirae up` exited with exit code ")
    assert "missing.yaml" in last_lines[-1]
    log_lines = log_file.read_text().splitlines()
    assert log_lines[0] == "from an earlier start"
    assert [line.strip() for line in last_lines] == log_lines[-15:]
    assert capfd.readouterr() == ("", "")


def test_error_message_quotes_the_end_of_the_log_without_control_characters(tmp_path: Path) -> None:
    log_file = tmp_path / "up.log"
    lines = [f"line {number}" for number in range(100_000)]
    log_file.write_text("\n".join([*lines, "x" * 5000, "red \x1b[31m"]) + "\n")
    up = UpProcess(_exited_process(70), log_file)
    with pytest.raises(MoiraeError, match="exit code 70; last lines of the log:") as failure:
        up.has_succeeded()
    _, *quoted = str(failure.value).splitlines()
    assert len(quoted) == 15
    assert quoted[0] == "  line 99987"
    assert quoted[-2].endswith("xxx ...")
    assert len(quoted[-2]) < 600
    assert quoted[-1] == r"  red \u001b[31m"


def test_exit_without_error_is_success_for_a_drain_and_an_error_in_the_live_phase(
    tmp_path: Path,
) -> None:
    log_file = tmp_path / "up.log"
    log_file.touch()
    up = UpProcess(_exited_process(0), log_file)
    assert up.has_succeeded()
    with pytest.raises(MoiraeError, match="exit code 0; the log is empty"):
        up.check_running()
