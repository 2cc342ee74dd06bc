"""All processes of a test run: starters, JVMs and databases, also those whose parent has exited."""

import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

# A variable of the environment, which children inherit.
_MARK = "MOIRAE_TEST_RUN"


def find_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Run:
    """What was started with `environment`, and the database in `directory`."""

    directory: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        """To be added to the environment of who starts the others."""
        return {_MARK: self.mark}

    def processes(self) -> list[psutil.Process]:
        """Those that run now."""
        return [process for process in psutil.process_iter() if self._is_of_run(process)]

    def left(self, seconds: float) -> list[str]:
        """The command lines of those that still run after some time, at most; none: all have ended."""
        deadline = time.monotonic() + seconds
        while (running := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [" ".join(_command(process)) for process in running]

    def kill(self) -> None:
        """End what is left."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()

    def _is_of_run(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            # PostgreSQL writes over its environment.
            return process.environ().get(_MARK) == self.mark or any(
                part.startswith(str(self.directory)) for part in _command(process)
            )
        return False


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []
