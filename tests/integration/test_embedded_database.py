"""The embedded PostgreSQL runs as long as a process uses it, however that process ends."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from moirae.demo.run import move_previous_workspace
from moirae.errors import MoiraeError

# Says `connected`, then waits for a line, and ends as that says.
USER = """
import os, sys
from pathlib import Path
import psycopg
from moirae.runtime import embedded_database
embedded_database._LINGER = float(sys.argv[2])
with psycopg.connect(embedded_database.start_embedded_database(Path(sys.argv[1]))) as connection:
    assert connection.execute("SELECT 1").fetchone() == (1,)
    print("connected", flush=True)
    how = sys.stdin.readline().strip()
    if how == "exit at once":
        os._exit(0)
if how == "release":
    print(embedded_database.release_embedded_database(Path(sys.argv[1])))
"""
ENDS = [
    "kill",
    *(pytest.param(end, marks=pytest.mark.slow) for end in ("return", "exit at once", "release")),
]
# Seconds for which the server runs after its last user.
LINGER = 0.5
# Seconds for the server to stop after its last user, on a busy machine.
STOPS = 30.0


@pytest.fixture
def home(public_folder: Path) -> Iterator[Path]:
    """One for all tests, as to make it takes longer than to start it; after each test nothing runs
    there.
    """
    new_home = public_folder / ".moirae"
    yield new_home
    assert _gone(new_home), [process.cmdline() for process in _processes(new_home)]


@contextmanager
def _user(home: Path, linger: float = LINGER) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(home), str(linger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _connected(user: subprocess.Popen[str]) -> None:
    assert user.stdout is not None
    assert user.stdout.readline() == "connected\n"


def _end(user: subprocess.Popen[str], how: str) -> str:
    """What it says at its end."""
    if how == "kill":
        user.kill()
    return user.communicate(f"{how}\n", timeout=60)[0]


def _processes(home: Path) -> list[psutil.Process]:
    """The server and the launcher."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = process.cmdline()
            if command[1:2] != ["-c"] and any(
                part in (str(home), str(home / "postgresql")) for part in command
            ):
                processes.append(process)
    return processes


def _gone(home: Path) -> bool:
    deadline = time.monotonic() + STOPS
    while _processes(home) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not _processes(home)


def _launcher(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "postgresql.launcher").read_text()))


@pytest.mark.parametrize("how", ENDS)
def test_server_stops_with_its_last_user(home: Path, how: str) -> None:
    with _user(home) as first, _user(home) as second:
        _connected(first)
        _connected(second)
        _end(first, "kill")
        time.sleep(LINGER + 1)
        assert len(_processes(home)) >= 2
        output = _end(second, how)
        assert output == ("True\n" if how == "release" else "")
        if how == "release":
            assert not _processes(home)
        assert _gone(home)


@pytest.mark.slow
def test_releasing_the_server_does_not_stop_it_for_other_users(home: Path) -> None:
    with _user(home) as first, _user(home) as second:
        _connected(first)
        _connected(second)
        assert _end(first, "release") == "False\n"
        assert _end(second, "release") == "True\n"


@pytest.mark.slow
def test_concurrent_users_all_reach_the_server(home: Path) -> None:
    """Starts overlap with a stop: `release` does not wait for the next user."""
    rng = random.Random(1)
    for _ in range(2):
        with _user(home) as first, _user(home) as second:
            users = [first, second]
            for user in users:
                _connected(user)
                time.sleep(rng.uniform(0, 0.2))
                _end(user, rng.choice(ENDS))
            time.sleep(rng.choice([0, rng.uniform(0, 0.5)]))


@pytest.mark.slow
def test_user_killed_during_startup_leaves_no_server(home: Path) -> None:
    for pause in (0.2, 0.5, 1.0):
        with _user(home) as user:
            time.sleep(pause)
            user.kill()
        assert _gone(home)
    with _user(home) as user:
        _connected(user)


@pytest.mark.slow
def test_next_user_takes_over_a_server_whose_launcher_was_killed(home: Path) -> None:
    with _user(home) as first:
        _connected(first)
        server = int((home / "postgresql" / "postmaster.pid").read_text().splitlines()[0])
        launcher = _launcher(home)
        launcher.kill()
        _end(first, "kill")
    psutil.wait_procs([launcher], 10)
    with _user(home) as second:
        _connected(second)
        assert server == int((home / "postgresql" / "postmaster.pid").read_text().splitlines()[0])


def test_terminated_launcher_stays_while_it_has_users(home: Path) -> None:
    with _user(home) as user:
        _connected(user)
        _launcher(home).send_signal(signal.SIGTERM)
        time.sleep(1.0)
        assert len(_processes(home)) >= 2


@pytest.mark.slow
def test_server_of_a_moved_folder_is_replaced(home: Path) -> None:
    moved = home.with_name(".moved")
    with _user(home, linger=600.0) as user:
        _connected(user)
        _end(user, "exit at once")
    home.rename(moved)
    try:
        with _user(moved) as user:
            _connected(user)
            assert _gone(home)
            _end(user, "return")
        assert _gone(moved)
    finally:
        moved.rename(home)


@pytest.mark.slow
def test_server_stops_when_its_folder_is_removed(home: Path) -> None:
    with _user(home) as user:
        _connected(user)
        shutil.rmtree(home, ignore_errors=True)
        assert _gone(home)


@pytest.mark.slow
def test_demo_does_not_replace_a_workspace_in_use(public_folder: Path) -> None:
    directory = public_folder / "demo"
    directory.mkdir()
    (directory / ".moirae-demo").touch()
    with _user(directory / ".moirae") as user:
        _connected(user)
        with pytest.raises(MoiraeError, match="is in use by other processes"):
            move_previous_workspace(directory)
        assert (directory / ".moirae").is_dir()
        assert _end(user, "release") == "True\n"
    previous = move_previous_workspace(directory)
    assert previous is not None and (previous / ".moirae").is_dir()
    assert not directory.exists()
