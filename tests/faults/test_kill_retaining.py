"""What the database forgets is killed at any moment: every record stays accounted for, the workspace is whole, and what
is kept does not grow."""

import multiprocessing
import os
import random
import time

import pytest

from archiver.catalog import Catalog
from moirae import database
from moirae.doctor import examine
from moirae.settings import from_environment
from tests.faults.harness import workspace
from tests.faults.retaining import ROWS, main

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
WORKSPACE = """
home: .moirae
streams:
  s:
    columns: {ts: timestamp, n: bigint, host: string}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {files: landing/*.jsonl}
chunks: {rows: 1000, age: 1d, recent: 2, keep: 3s}
rules: []
"""


@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=pytest.mark.faults)])
@pytest.mark.timeout(1200)
def test_what_is_forgotten_stays_accounted_for(kills: int) -> None:
    """In any state that a killed process leaves behind."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.faults.rolling", "tests.faults.numbering", "tests.faults.retaining"])
    with workspace(WORKSPACE, "groups: []\n") as root:
        (root / "landing").mkdir()
        (root / "landing" / ".keep").touch()
        settings = from_environment(root / "moirae.yaml")
        connection = database.connect(settings, "reader")
        for number in range(kills + 1):
            process = processes.Process(target=main, args=(root / "moirae.yaml",))
            process.start()
            try:
                goal = _units(Catalog(connection)) + rng.randrange(20, 80)
                while _units(Catalog(connection)) < goal or (number == kills and not _forgets(Catalog(connection))):
                    assert process.is_alive(), "who forgets has ended by itself"
                    time.sleep(rng.random() / 10)
            finally:
                process.kill()
                process.join()
            (account,) = Catalog(connection).accounting()
            units = account["units"]
            assert account["read"] == units * ROWS + units + (units + 6) // 7
            assert (account["archived"], account["duplicates"]) == (units * ROWS, units)
            wrong = [(finding.check, finding.wrong) for finding in examine(settings, connection) if finding.wrong]
            assert not wrong
        rows = "SELECT (SELECT count(*) FROM units) + (SELECT count(*) FROM events) + (SELECT count(*) FROM chunks)"
        (held,) = connection.execute(rows).fetchone() or (0,)
        assert held < units
        connection.close()


def _units(catalog: Catalog) -> int:
    """How many are archived."""
    return sum(account["units"] for account in catalog.accounting())


def _forgets(catalog: Catalog) -> bool:
    """Whether chunks have left that were the oldest, and events with them."""
    return catalog.chunks()[0].id > 0 and sum(account["forgotten"] for account in catalog.accounting()) > 0
