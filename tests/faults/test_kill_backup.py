"""Backups and restores are killed at any moment, while the workspace goes on: what is restored is what
was backed up, and it goes on from there.
"""

import json
import os
import random
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from archiver.threads import start_thread
from moirae.config.settings import load_settings_from_environment
from moirae.runtime import database
from tests.backups import filled, make_workspace, numbers_of, problems_of, stop_database
from tests.faults.commands import kill_command, run_command
from tests.faults.harness import Stage, stage
from tests.landing import put_file

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
BACKUP_KILLS = 8
RESTORE_KILLS = 6
RULES = """
groups:
- name: load
  rules:
  - alert: High
    expr: SELECT host, n, ts, cpu FROM cpu WHERE cpu > 99.5
    key: [host]
    id: [n]
    keep_firing_for: 3s
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean, count(*) AS n FROM cpu h WHERE h.host = event.host", range: 1h}
"""

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]


def _ids(root: Path) -> set[tuple[str, int]]:
    """The archived rows, each once."""
    table = DeltaTable(root / ".moirae" / "archive" / "streams" / "cpu").to_pyarrow_table(
        columns=["host", "n"]
    )
    numbers = [(row["host"], row["n"]) for row in table.to_pylist()]
    assert len(numbers) == len(set(numbers)), "a row is archived twice"
    return set(numbers)


def _backed_up_ids(system: Stage, appends: int) -> set[tuple[str, int]]:
    """The rows of the first appends of the original."""
    from archiver.delta.table import StreamTable
    from moirae.config.table_schemas import stream_schema

    schema = stream_schema("cpu", system.settings.streams["cpu"])
    rows = StreamTable(Path(system.settings.archive), schema).read(["host", "n", "_append"])
    return {(row["host"], row["n"]) for row in rows.to_pylist() if row["_append"] <= appends}


def _write_earlier_rows(system: Stage) -> list[dict[str, Any]]:
    """A file of rows of an hour ago, some with an event."""
    start = datetime.now(UTC) - timedelta(hours=1)
    rows = [
        {
            "ts": (start + timedelta(milliseconds=n)).isoformat().replace("+00:00", "Z"),
            "host": f"h{n % 5}",
            "n": -n - 1,
            "cpu": 99.9 if n % 50 == 49 else 20.0,
        }
        for n in range(200)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    folder = system.root / "landing" / "cpu"
    folder.mkdir(parents=True)
    put_file(folder / "00000000-earlier.jsonl", text)
    return rows


def _answered_events(system: Stage, before: Any) -> Sequence[str]:
    rows = system.connection.execute(
        "SELECT eid FROM tasks WHERE state = 'done' AND ended_at < %s ORDER BY ended_at LIMIT 3",
        [before],
    ).fetchall()
    return [str(eid) for (eid,) in rows]


def test_restored_workspace_is_what_was_backed_up_whatever_was_killed(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    with stage(SEED, rate=300, rules=RULES) as system:
        backups = system.root / "backups"
        target = system.root / "restored"
        target.mkdir()
        target.chmod(0o755)
        # Recalls of these rows have ended before the first backup.
        earlier = _write_earlier_rows(system)
        system.drain()
        assert _answered_events(system, "infinity")
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 50, 240)
        completed = 0
        for number in range(BACKUP_KILLS):
            completed += kill_command(
                system.root, rng.uniform(0.2, 6.0 + number), "backup", str(backups)
            )
        run_command(system.root, "backup", str(backups))
        summary = json.loads(run_command(system.root, "backup", str(backups), "-o", "json"))
        time.sleep(1)
        appends = summary["appends"]["cpu"]
        listed = json.loads(run_command(system.root, "backup", "list", str(backups), "-o", "json"))
        assert len(listed) >= completed + 2
        answered = _answered_events(system, summary["taken_at"])
        answers = [run_command(system.root, "recalls", "repeat", eid) for eid in answered]
        system.producer.stop()
        system.down()
        expected = _backed_up_ids(system, appends)

        restored = 0
        for number in range(RESTORE_KILLS):
            if kill_command(target, rng.uniform(0.2, 3.0 + 2 * number), "restore", str(backups)):
                restored += 1
                break
        if not restored:
            run_command(target, "restore", str(backups))
        ids = _ids(target)
        assert ids == expected
        run_command(target, "doctor")
        assert [run_command(target, "recalls", "repeat", eid) for eid in answered] == answers
        settings = load_settings_from_environment(target / "moirae.yaml")
        with database.connect_database(settings, "faults") as connection:
            counts: Any = connection.execute(
                "SELECT sum(read), sum(archived + duplicates + malformed + conflicts"
                " + quarantined + expired) FROM units WHERE done"
            ).fetchone()
        assert counts[0] == counts[1]
        database.release_database(settings)
        # It goes on: the folder of the source has files that the ledger does not know.
        source = target / "landing"
        source.symlink_to(system.root / "landing")
        run_command(target, "up", "--drain")
        accepted = [*earlier, *system.producer.rows]
        assert _ids(target) == {(row["host"], row["n"]) for row in accepted}
        run_command(target, "doctor")
        print(
            f"{completed} backups and {restored} restores ended before they were killed; "
            f"{len(ids):,} rows restored, {len(system.producer.rows):,} after the drain, "
            f"{len(answers)} answers repeated"
        )


def test_backups_of_an_archive_under_load_are_killed(public_folder: Path) -> None:
    """Without rules: batches are archived all the time, by this process."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    settings = make_workspace(public_folder / "original")
    backups = public_folder / "backups"
    root, target = settings.file.parent, public_folder / "restored"
    target.mkdir()
    stop = threading.Event()
    started = threading.Event()

    def archive_all() -> int:
        number = 0
        with filled(settings) as archive:
            while not stop.is_set():
                archive.post(range(number, number + 3))
                archive.archive()
                number += 3
                started.set()
        return number

    archiving = start_thread(archive_all, "archiving")
    try:
        assert started.wait(120)
        completed = 0
        for number in range(BACKUP_KILLS):
            completed += kill_command(root, rng.uniform(0.2, 4.0 + number), "backup", str(backups))
        summary = json.loads(run_command(root, "backup", str(backups), "-o", "json"))
    finally:
        stop.set()
    count = archiving.result(60)
    expected = numbers_of(settings, summary["appends"]["cpu"])
    assert len(expected) == summary["rows"] < count
    restored = any(
        kill_command(target, rng.uniform(0.2, 3.0 + 2 * number), "restore", str(backups))
        for number in range(RESTORE_KILLS)
    )
    if not restored:
        run_command(target, "restore", str(backups))
    restored_settings = load_settings_from_environment(target / "moirae.yaml")
    assert numbers_of(restored_settings) == expected
    assert problems_of(restored_settings) == []
    print(
        f"{completed} of {BACKUP_KILLS} backups ended before they were killed, a restore: "
        f"{restored}; {count:,} rows archived meanwhile, {len(expected):,} restored"
    )
    stop_database(restored_settings)
    stop_database(settings)
