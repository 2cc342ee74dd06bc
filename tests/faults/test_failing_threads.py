"""A thread of a process that fails ends the process with an error that the status shows."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moirae.cli.processes import EXIT_INTERNAL_ERROR
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import connect_database
from moirae.runtime.roles import list_processes
from tests.faults.harness import workspace

WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  m: {columns: {ts: timestamp, v: double}, time: ts, source: {files: landing/m/*.jsonl}}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT ts, v FROM m WHERE v > 90
"""
# Replaces a function by one that fails, and runs `moirae`.
FAULT = """
import importlib, sys
module, function = {module!r}, {function!r}
owner = importlib.import_module(module)
*owners, name = function.split(".")
for part in owners:
    owner = getattr(owner, part)

def fail(*arguments, **options):
    raise ValueError("injected fault")

setattr(owner, name, fail)
from moirae.__main__ import main
main()
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, RULES) as folder:
        yield folder


def _run_with_fault(root: Path, process: str, module: str, function: str) -> tuple[int, str]:
    """The exit code of a process of the workspace, and what it writes."""
    script = FAULT.format(module=module, function=function)
    command = [sys.executable, "-c", script, "run", process]
    arguments = ["--workspace", str(root / "moirae.yaml"), "--parent", str(os.getpid())]
    if process == "live":
        arguments.append("--apply-rules")
    result = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    return result.returncode, result.stderr


_CASES = [
    pytest.param("server", "server", "uvicorn", "Server.run", marks=pytest.mark.faults),
    pytest.param("recall", "stages", "recall.stages", "StageRunner.run", marks=pytest.mark.faults),
    pytest.param(
        "recall", "revisions", "recall.ledger", "RevisionArchive.run", marks=pytest.mark.faults
    ),
    pytest.param(
        "recall", "similarity", "recall.worker.run", "compile_kernels", marks=pytest.mark.faults
    ),
    pytest.param("recall", "parent", "os", "getppid", marks=pytest.mark.faults),
    pytest.param(
        "recall", "signals", "moirae.runtime.signals", "Signals._read", marks=pytest.mark.faults
    ),
    pytest.param(
        "live", "JVM output", "archiver.spark.session", "_log_jvm_output", marks=pytest.mark.faults
    ),
    pytest.param(
        "live", "rules", "moirae.deployments.reload", "RuleReloader._run", marks=pytest.mark.faults
    ),
]


@pytest.mark.parametrize(("process", "thread", "module", "function"), _CASES)
def test_failing_thread_ends_its_process_with_the_reason(
    root: Path, process: str, thread: str, module: str, function: str
) -> None:
    code, log = _run_with_fault(root, process, module, function)
    assert code == EXIT_INTERNAL_ERROR, log
    assert "injected fault" in log
    settings = load_settings_from_environment(root / "moirae.yaml")
    with connect_database(settings, "tests") as connection:
        rows = {row["role"]: row for row in list_processes(connection)}
    if thread not in ("signals", "parent"):  # they may fail before the process has its role
        assert rows[process]["state"] == "failed"
        assert rows[process]["error"] == f"thread {thread}: ValueError: injected fault"


@pytest.mark.faults
def test_error_of_a_drain_is_in_its_exit_code(root: Path) -> None:
    """The recall process of a drain fails at each start: the drain gives up."""
    (root / "landing" / "m").mkdir(parents=True, exist_ok=True)
    row = json.dumps({"ts": "2026-01-01T00:00:00Z", "v": 99.0})
    (root / "landing" / "m" / "1.jsonl").write_text(row + "\n")
    fault = FAULT.format(module="recall.stages", function="StageRunner.run")
    site = root / "site"
    site.mkdir()
    # Children are started as `python -m moirae`: the fault is put into each of them.
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'recall' in sys.orig_argv and 'run' in sys.orig_argv:\n"
        + "".join(
            f"    {line}\n" for line in fault.partition("from moirae.__main__")[0].splitlines()
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace"]
    result = subprocess.run(
        [*command, str(root / "moirae.yaml")],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env=environment,
    )
    assert result.returncode != 0, result.stderr
    assert "injected fault" in result.stderr
