"""D3: backlog of many small files: files a second ÷ those of the commit before live discovery.

Both commits drain new workspaces with such files, one after the other. The time of a drain of few
files, which is the start and the end of the processes, is subtracted. The earlier commit drains a
twentieth of the files: it lists them again for each micro-batch, so that more would be slower each.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.discovery import write_files
from benchmarks.fixtures import temporary_folder, temporary_workspace
from benchmarks.live_stream import CPU_WORKSPACE
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel

_REPETITIONS = 3
_FILE_COUNT = 30_000
_FILE_COUNT_BEFORE = 1_500
_FEW_FILES = 10
_TIMEOUT = 3_600.0  # seconds
_BEFORE = "f2ec7c13~1"
_PROJECT = Path(__file__).resolve().parents[1]
_RULES = """
groups:
- name: bench
  rules:
  - alert: High
    expr: SELECT * FROM cpu WHERE cpu > 98
    key: [host]
"""


def run() -> list[BenchmarkResult]:
    """Measure both commits alternately."""
    ratios: list[float] = []
    rates: list[float] = []
    rates_before: list[float] = []
    noise: list[float] = []
    with _checked_out(_BEFORE) as before:
        for repetition in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            rates.append(measure_rate(_PROJECT, _FILE_COUNT))
            rates_before.append(measure_rate(before, _FILE_COUNT_BEFORE))
            ratios.append(rates[-1] / rates_before[-1])
            print(
                f"{repetition + 1}/{_REPETITIONS}: {rates[-1]:,.0f} files/s, "
                f"before {rates_before[-1]:,.0f}",
                file=sys.stderr,
            )
    return [
        make_result(
            "D3",
            f"backlog of {_FILE_COUNT:,} files of one row: files/s ÷ before live discovery",
            ratios,
            target="≥ 9",
            details={
                "files/s": rounded_median(rates, 0),
                f"before, files/s of {_FILE_COUNT_BEFORE:,}": rounded_median(rates_before, 0),
            },
            noise=noise,
        )
    ]


def measure_rate(project: Path, file_count: int) -> float:
    """Files a second of a drain by the program in a folder."""
    few = _drain(project, _FEW_FILES)
    return (file_count - _FEW_FILES) / (_drain(project, file_count) - few)


def _drain(project: Path, file_count: int) -> float:
    """The seconds of a drain."""
    with temporary_workspace(CPU_WORKSPACE, _RULES) as root:
        write_files(root / "landing", file_count, datetime.now(UTC) - timedelta(days=1))
        command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace"]
        started_at = time.monotonic()
        subprocess.run(
            [*command, str(root / "moirae.yaml")],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(project)},
            stdout=subprocess.DEVNULL,
            stderr=(root / "log").open("wb"),
            timeout=_TIMEOUT,
            check=True,
        )
        return time.monotonic() - started_at


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with temporary_folder() as folder:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=_PROJECT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
        yield folder
