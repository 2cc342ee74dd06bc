"""`moirae upgrade` is killed at any moment: run again, it ends as one that was not killed."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sql
from moirae.config import Settings, load_settings_from_environment
from moirae.runtime import database_dsn, release_database
from sql.migrate import migrations
from tests.commands import Commands
from tests.compatibility.workspace import (
    answers,
    public_folder,
    restore,
    running_database,
    unpack,
)

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = 12
LONGEST = 6.0  # seconds until a kill
PACKAGE = Path(__file__).parents[1] / "compatibility" / "before_declarations"

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]


def _run_and_kill(root: Path, seconds: float) -> int | None:
    """The exit code; None: it was killed."""
    command = [sys.executable, "-m", "moirae", "upgrade", "--without-backup"]
    process = subprocess.Popen(
        [*command, "--workspace", str(root / "moirae.yaml")],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _applied(settings: Settings) -> int:
    """The number of applied migrations. This process stays a user of the embedded database."""
    with sql.connect(database_dsn(settings), application_name="faults") as connection:
        row = connection.execute("SELECT count(*) FROM schema_migrations").fetchone()
    assert row is not None
    return int(row[0])


def test_upgrade_goes_on_after_it_was_killed() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    described = json.loads((PACKAGE / "answers.json").read_text())
    kills = 0
    with public_folder() as root:
        dump = unpack(PACKAGE / "workspace.tar.xz", root)
        with running_database(root) as server:
            restore(server, dump)
            settings = load_settings_from_environment(root / "moirae.yaml")
            before = _applied(settings)
            for _ in range(KILLS):
                exit_code = _run_and_kill(root, rng.uniform(0.3, LONGEST))
                assert exit_code in (None, 0)
                kills += exit_code is None
                # All or nothing.
                assert _applied(settings) in (before, len(migrations()))
            assert _run_and_kill(root, 300.0) == 0
            assert _applied(settings) == len(migrations())
            with Commands(root) as process:
                process.output("doctor")
                actual = answers(process)
                process.output("up", "--drain")
                process.output("doctor")
            release_database(settings)
    # Later versions have built-in streams.
    actual["streams"] = {name: actual["streams"][name] for name in described["streams"]}
    for name in ("streams", "dead_letters", "rules", "events", "alerts"):
        assert actual[name] == described[name]
    print(f"{kills} of {KILLS} upgrades were killed")
