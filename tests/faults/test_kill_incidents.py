"""kill -9 while alerts are placed in incidents and people decide: each is placed once, no half decision."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

import sql
from moirae.config import Settings
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import database
from tests.api_data import RULES, WORKSPACE
from tests.faults.copies import start_copy
from tests.faults.placing import decide, make_engine, place
from tests.integration.test_incidents import alert_id, list_placed, put_alert
from tests.workspaces import workspace

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = int(os.environ.get("MOIRAE_FAULT_KILLS", "20"))

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


@pytest.fixture
def settings() -> Iterator[Settings]:
    with workspace(WORKSPACE, RULES) as root:
        yield load_settings_from_environment(root / "moirae.yaml")


@contextmanager
def killing(settings: Settings, run: Callable[[Path], None], rng: random.Random) -> Iterator[None]:
    """A process that is killed at a random time after it has begun to work."""
    process = start_copy(run, Path(settings.file))
    try:
        yield
        time.sleep(rng.uniform(0, 0.3))
    finally:
        process.kill()
        process.join()


def put_alerts(connection: sql.Connection, first: int, rng: random.Random) -> int:
    """Some alerts, each later than those before; returns the number of the next one."""
    for number in range(first, first + 40):
        cause = rng.choice(("disk", "net", "mail"))
        with connection.transaction():  # an alert and its context
            put_alert(
                connection,
                number,
                rule=f"g/r{rng.randrange(4)}",
                host=f"h{rng.randrange(6)}",
                minutes=number / 2,
                context={"cause": cause, "step": f"{cause} {rng.randrange(3)}"},
            )
    return first + 40


def wait_for_placement(connection: sql.Connection, alerts: int) -> None:
    """Until some of the newest alerts are placed, so that the kill comes within the work."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if len(list_placed(connection)) > alerts - 40:
            return
    raise AssertionError("no alert is placed")


def test_each_alert_is_placed_once_and_as_without_kills(settings: Settings) -> None:
    rng = random.Random(SEED)
    count = 0
    with database.connect_database(settings, "tests") as connection:
        for _ in range(KILLS):
            with killing(settings, place, rng):
                count = put_alerts(connection, count, rng)
                wait_for_placement(connection, count)
        make_engine(connection).run_to_end()
        placed = list_placed(connection)
        assert set(placed) == {alert_id(number) for number in range(count)}
        assert 1 < len(set(placed.values())) < count
        connection.execute("DELETE FROM incidents")
        connection.execute("INSERT INTO unplaced_alerts SELECT id FROM alerts")
        make_engine(connection).run_to_end()
        assert list_placed(connection) == placed
        print(f"seed {SEED}: {count} alerts, {KILLS} kills", flush=True)


def test_decisions_are_whole_or_not_made(settings: Settings) -> None:
    rng = random.Random(SEED)
    count = 0
    with database.connect_database(settings, "tests") as connection:
        for _ in range(KILLS):
            with killing(settings, place, rng), killing(settings, decide, rng):
                count = put_alerts(connection, count, rng)
                wait_for_placement(connection, count)
        make_engine(connection).run_to_end()
        placed = list_placed(connection)
        assert set(placed) == {alert_id(number) for number in range(count)}
        decisions = connection.execute(
            "SELECT kind, incident, other FROM incident_decisions ORDER BY id"
        ).fetchall()
        merged = {other: into for kind, into, other in decisions if kind == "merge"}
        parted = {other for kind, _, other in decisions if kind == "split"}
        assert merged and parted
        assert merged == dict(
            connection.execute(
                "SELECT id, merged_into FROM incidents WHERE state = 'merged'"
            ).fetchall()
        )
        assert not merged.keys() & set(placed.values()), "a merged incident has no alerts"
        known: set[UUID] = {
            row[0] for row in connection.execute("SELECT id FROM incidents").fetchall()
        }
        assert parted <= known
        series = connection.execute(
            "SELECT count(*) FROM incident_decisions WHERE kind <> 'confirm'"
            " AND (series = '{}' OR others = '{}')"
        ).fetchone()
        assert series == (0,), "each says of which rules and keys"
        print(f"seed {SEED}: {len(decisions)} decisions, {KILLS} kills", flush=True)
