"""The process that learns models is killed, and the one that stores them.

Stored models are whole, learning goes on by itself or in the next process, and nothing is left over.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import Connection

from moirae.config.settings import load_settings
from moirae.deployments.registry import RuleRegistry
from moirae.rules.definition import Definition
from moirae.rules.model import Group
from moirae.rules.rule_set import build_rules
from moirae.runtime import database
from recall.learned_models import LearnedModels
from tests.integration.test_evaluation import EVENTS, RULE, add_event, kind

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "6"))
_LONGEST_RUN = 4.0  # seconds from the beginning of learning to a kill
_PATIENCE = 120.0  # seconds

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500)]


@pytest.fixture
def workspace() -> Iterator[tuple[Path, Connection[Any]]]:
    """A rule with a recall by `learned`, and resolved alerts."""
    rule = deepcopy(RULE)
    rule["rules"][0]["recall"]["similar"]["similar"]["measure"] = "learned"  # type: ignore[index]
    # The database server ends, and writes, a moment after its last connection.
    with tempfile.TemporaryDirectory(
        prefix="moirae-learning-", ignore_cleanup_errors=True
    ) as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "moirae.yaml").write_text("home: .moirae\nstreams: {}\n")
        connection = database.connect_database(load_settings(root / "moirae.yaml", {}), "test")
        built = build_rules(Group.model_validate(rule))[0]
        definition = Definition(built, {"host": "string"}, ("host",), ("host",))
        RuleRegistry(connection).apply([definition])
        for number in range(EVENTS):
            add_event(connection, definition, number)
        yield root / "moirae.yaml", connection
        connection.close()


def _start(workspace: Path, scratch: Path) -> psutil.Popen:
    environment = {**os.environ, "TMPDIR": str(scratch)}
    command = [sys.executable, "-m", "tests.faults.learning", str(workspace)]
    return psutil.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def _wait(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + _PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return result


def _learning_processes(learner: psutil.Popen) -> list[psutil.Process]:
    return [
        process for process in learner.children() if "spawn_main" in " ".join(process.cmdline())
    ]


def _check_models(connection: Connection[Any]) -> int:
    """All stored models are whole. Returns the ID of the newest one; 0: there is none."""
    newest = 0
    for (model_id,) in connection.execute("SELECT id FROM learned_models ORDER BY id").fetchall():
        model = LearnedModels(connection).load(model_id)
        assert len(model.resolved_events.eids) == EVENTS - 1
        assert model.forecast({f"msg={kind(0)}0": 1}, 1).tags
        newest = model_id
    return newest


def test_killed_learning_leaves_whole_models_and_nothing_else(
    workspace: tuple[Path, Connection[Any]], tmp_path: Path
) -> None:
    path, connection = workspace
    generator = random.Random(SEED)
    learner = _start(path, tmp_path)
    try:
        for number in range(KILLS):
            processes = _wait(partial(_learning_processes, learner))
            time.sleep(generator.uniform(0, _LONGEST_RUN))
            processes = _learning_processes(learner) or processes
            newest = _check_models(connection)
            if number % 2:
                learner.kill()
                learner.wait(_PATIENCE)
                _, alive = psutil.wait_procs(processes, _PATIENCE)
                assert not alive, "a learning process outlived the one that started it"
                learner = _start(path, tmp_path)
            else:
                for process in processes:
                    if process.is_running():
                        process.send_signal(signal.SIGKILL)
            assert _wait(lambda newest=newest: _check_models(connection) > newest)
            assert learner.is_running()
    finally:
        learner.kill()
        learner.wait(_PATIENCE)
    assert list(tmp_path.iterdir()) == []
