"""The program `moirae`: start-up time, and exit after a storage failure."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moirae.cli import app

HEAVY_MODULES = ("pyspark", "numba", "sklearn", "scipy", "duckdb", "deltalake", "pyarrow")
# The work of the process: a thread that blocks for minutes, then the failure.
_FAILING_PROGRAM = """
import sys, time, types
from concurrent.futures import ThreadPoolExecutor
from archiver.errors import StorageFailed
from moirae.__main__ import main

def run(*_):
    ThreadPoolExecutor(1).submit(time.sleep, 300)
    raise StorageFailed("the archive s3://b cannot be used: it is away")

module, function, role, workspace = sys.argv[1:]
sys.modules[module] = types.ModuleType(module)
setattr(sys.modules[module], function, run)
sys.argv = ["moirae", "run", role, "--workspace", workspace]
main()
"""


@pytest.mark.parametrize(
    ("module", "function", "role"),
    [("moirae.live", "run_live", "live"), ("moirae.recall_process", "run_recall", "recall")],
)
def test_process_exits_at_once_when_object_storage_fails(
    module: str, function: str, role: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "moirae.yaml"
    workspace.write_text(
        "streams: {s: {columns: {ts: timestamp}, time: ts, source: {files: 'in/*.jsonl'}}}\n"
    )
    command = [sys.executable, "-c", _FAILING_PROGRAM, module, function, role, str(workspace)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stderr) == (
        75,
        "moirae: the archive s3://b cannot be used: it is away\n",
    )


def test_command_line_loads_no_heavy_library() -> None:
    program = (
        "import sys, moirae.__main__\n"
        "from moirae.inspect import is_live_available, sum_accounting\n"
        f"print(*[name for name in {HEAVY_MODULES!r} if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stdout.split() == []


def test_version_is_the_one_of_the_distribution() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"moirae {version('moirae')}\n")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--output", "yaml", "must be table or json"),
        ("--limit", "x", "must be an integer"),
        ("--limit", "0", "must be at least 1"),
    ],
)
def test_invalid_option_is_a_usage_error(option: str, value: str, message: str) -> None:
    result = CliRunner().invoke(app, ["alerts", "list", option, value])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Input should" not in result.stderr
    assert "Value error" not in result.stderr
