"""`moirae doctor --repair` is killed at any moment: run again, it ends with the rows of one that was not
killed, each once, and the ledger agrees.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moirae.config import Settings
from moirae.runtime import connect_database
from sql.archive import RepairGateway
from tests.backups import filled, make_backup, numbers_of, problems_of, stop_database
from tests.integration.test_repair import archive_file, data_files, log_folder, make_file_workspace

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
KILLS = 8  # of each repair
LONGEST = 5.0  # seconds from the start to a kill
LONGEST_WORK = 0.3  # seconds from the first change to a kill, of every other repair

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]


def _list_files(settings: Settings) -> set[Path]:
    home = Path(settings.home)
    return {*(home / "damaged").rglob("*"), *(home / "archive").rglob("*")}


def _await_change(settings: Settings, process: "subprocess.Popen[str]") -> None:
    """Wait until the repair has changed a file, or has ended."""
    before = _list_files(settings)
    while process.poll() is None and _list_files(settings) == before:
        time.sleep(0.005)


def _repair_and_kill(
    settings: Settings, seconds: float, *arguments: str, after_change: bool = False
) -> bool:
    """Whether it had ended before. `after_change`: the seconds count from the first change on."""
    command = [sys.executable, "-m", "moirae", "doctor", "--repair", *arguments]
    process = subprocess.Popen(
        [*command, "--workspace", str(settings.file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    if after_change:
        _await_change(settings, process)
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    assert process.returncode == 0, errors[-3000:]
    return True


@pytest.mark.parametrize("damage", ["files", "files with backup", "log", "table"])
def test_killed_repair_goes_on(public_folder: Path, damage: str) -> None:
    print(f"seed {SEED}")
    rng = random.Random(f"{SEED} {damage}")
    settings = make_file_workspace(public_folder / "workspace")
    backups = public_folder / f"backups-{len(damage)}"
    with filled(settings) as archive:
        archive_file(archive, "first.jsonl", range(40))
        archive_file(archive, "second.jsonl", range(40, 50))
        archive.post(range(50, 60))
        archive.archive()
    arguments = []
    if damage in ("files with backup", "table"):
        make_backup(settings, backups)
        arguments = ["--from", str(backups)]
    if damage == "table":
        shutil.rmtree(log_folder(settings).parent)
    elif damage == "log":
        for commit in sorted(log_folder(settings).glob("*.json"))[1:]:
            commit.write_bytes(commit.read_bytes()[:50])
    else:
        for path in data_files(settings):
            path.write_bytes(path.read_bytes()[:50])
    assert problems_of(settings) != []
    ended = 0
    for number in range(KILLS):
        is_late = number % 2 == 1
        seconds = rng.uniform(0.0, LONGEST_WORK) if is_late else rng.uniform(0.5, LONGEST)
        ended += _repair_and_kill(settings, seconds, *arguments, after_change=is_late)
    assert _repair_and_kill(settings, 300.0, *arguments)
    assert problems_of(settings) == []
    lost = range(50, 60) if damage == "files" else range(0)
    assert numbers_of(settings) == [n for n in range(60) if n not in lost]
    with connect_database(settings, "tests") as connection:
        assert sum(row.rows for row in RepairGateway(connection).list_lost()) == len(lost)
    print(f"{ended} of {KILLS} repairs ended before they were killed")
    stop_database(settings)
    shutil.rmtree(settings.file.parent)
