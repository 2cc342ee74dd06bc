"""The process that deletes expired records from the database is killed at any moment.

Every record stays accounted for, `moirae doctor` reports no problem, and the database does not
grow.
"""

import os
import random
import time
from typing import Any

import pytest
from psycopg import Connection

from archiver.ingest.ledger import Catalog
from moirae.config import EXTERNAL_ALERTS
from moirae.config.settings import load_settings_from_environment
from moirae.inspect.doctor import run_checks
from moirae.runtime import database
from sql.archive import UnitGateway
from tests.faults.copies import start_copy
from tests.faults.harness import workspace
from tests.faults.retaining import ROWS, main
from tests.workspaces import one_stream

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
WORKSPACE = one_stream(rows=1000, keep="3s") + "alerts: {keep: 1s}\n"
_INCOMPLETE = """
SELECT count(*) FROM alerts a FULL JOIN judgements j ON j.eid = a.eid
LEFT JOIN alert_notes n ON n.alert_id = a.id WHERE a.id IS NULL OR j.eid IS NULL OR n.id IS NULL"""


@pytest.mark.parametrize(
    "kills", [pytest.param(1, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(3600)
def test_deleted_records_stay_accounted_for(kills: int) -> None:
    """In any state that a killed process leaves."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with workspace(WORKSPACE, "groups: []\n") as root:
        (root / "landing").mkdir()
        (root / "landing" / ".keep").touch()
        settings = load_settings_from_environment(root / "moirae.yaml")
        connection = database.connect_database(settings, "reader")
        for number in range(kills + 1):
            process = start_copy(main, root / "moirae.yaml")
            try:
                began, goal = time.monotonic(), _units(connection) + rng.randrange(20, 80)
                while _units(connection) < goal or (number == kills and not _forgets(connection)):
                    assert process.is_alive(), "the retaining process has crashed"
                    assert time.monotonic() - began < 200, "as much is there as ever was"
                    time.sleep(rng.random() / 10)
            finally:
                process.kill()
                process.join()
            sums = UnitGateway(connection).sum_by_stream()
            (counts,) = (counts for counts in sums if counts.stream != EXTERNAL_ALERTS)
            units = counts.units
            assert counts.read == units * ROWS + units + (units + 6) // 7
            assert (counts.archived, counts.duplicates) == (units * ROWS, units)
            wrong = [
                (finding.check, finding.problems)
                for finding in run_checks(settings, connection)
                if finding.problems
            ]
            assert not wrong
            assert _count(connection, _INCOMPLETE) == 0, "of an alert is only a part left"
        connection.close()


def _units(connection: Connection[Any]) -> int:
    """How many are archived."""
    return sum(counts.units for counts in UnitGateway(connection).sum_by_stream())


def _forgets(connection: Connection[Any]) -> bool:
    """Whether the oldest chunks have left, and fewer rows are there than one for each unit that
    ever was.
    """
    tables = ("units", "events", "chunks", "alerts")
    row_count = sum(_count(connection, f"SELECT count(*) FROM {table}") for table in tables)
    return Catalog(connection).chunks()[0].id > 0 and row_count < _units(connection)


def _count(connection: Connection[Any], query: str) -> int:
    (count,) = connection.execute(query.encode()).fetchone() or (0,)
    return int(count)
