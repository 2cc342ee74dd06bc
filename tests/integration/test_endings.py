"""Processes stop with all their children, by any signal; with Spark and more often in
`tests/faults`.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ending import End, end_one
from tests.faults.harness import RULES, WORKSPACE, workspace
from tests.processes import Run


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, RULES) as folder:
        yield folder


@pytest.mark.parametrize(
    ("command", "end", "after"),
    [
        (["run", "server"], "signals", 2.0),
        pytest.param(["run", "server"], "terminal", 2.0, marks=pytest.mark.slow),
        pytest.param(["run", "server"], "parent", 2.0, marks=pytest.mark.slow),
        (["up"], "signals", 1.0),
        (["up"], "parent", 2.0),
        pytest.param(["up"], "itself", 2.0, marks=pytest.mark.slow),
    ],
)
def test_terminated_process_leaves_no_children(
    root: Path, command: list[str], end: End, after: float
) -> None:
    arguments = [*command, "--workspace", str(root / "moirae.yaml")]
    end_one(Run(root), arguments, end, after, random.Random(1), root / "log")
