"""What worker processes import."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

HEAVY = ("numba", "scipy", "sklearn", "sqlglot")


def test_workers_import_only_what_tasks_need() -> None:
    code = "import sys, recall.statements.worker_daemon; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "archiver.executors.tasks.decode" in modules
    assert "recall.statements.part_task" in modules
    assert not set(HEAVY).intersection(modules)
    assert not {name for name in modules if name.startswith(("moirae", "recall.engines"))}


def test_imported_objects_are_not_collected_after_each_task() -> None:
    code = "import gc, recall.statements.worker_daemon; print(gc.get_freeze_count())"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(output) > 50_000
