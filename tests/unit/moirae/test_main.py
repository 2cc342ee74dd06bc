"""A process whose object storage failed says so and ends, whatever its threads are waiting for."""

import subprocess
import sys
from pathlib import Path

import pytest

# The process's own work is a thread that waits for long, and the failure.
_FAILS = """
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
def test_it_ends_at_once(module: str, function: str, role: str, tmp_path: Path) -> None:
    workspace = tmp_path / "moirae.yaml"
    workspace.write_text(
        "streams: {s: {columns: {ts: timestamp}, time: ts, source: {files: 'in/*.jsonl'}}}\n"
    )
    command = [sys.executable, "-c", _FAILS, module, function, role, str(workspace)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (
        75,
        "moirae: the archive s3://b cannot be used: it is away\n",
    )
