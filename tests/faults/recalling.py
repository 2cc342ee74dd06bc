"""Recall processes to be killed."""

import os
import signal
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from moirae.config.settings import load_settings_from_environment
from moirae.recall_process import run_recall
from moirae.runtime import logs
from moirae.runtime.signals import Signals
from recall.worker import run as serving
from tests.faults.copies import start_copy


def main(workspace: Path, log: Path) -> None:
    """`moirae run recall`, in a process group of its own; it gives way to nobody, as a kill would
    take minutes then.
    """
    os.setsid()
    serving._NICENESS = 0
    descriptor = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    stop = Signals().stop
    logs.configure_logging()
    run_recall(load_settings_from_environment(workspace), stop)
    os._exit(0)


class Recaller:
    """A recall process; it is started again if it crashes, as `moirae up` does."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._process = self._start()

    def _start(self) -> ForkServerProcess:
        return start_copy(main, self._workspace, self._workspace.with_name("recall.log"))

    def look(self) -> None:
        """Start the process again if it has ended."""
        if not self._process.is_alive():
            log_text = self._workspace.with_name("recall.log").read_text()
            print(f"it fell with {self._process.exitcode}: {log_text[-1000:]}", flush=True)
            self.kill()
            self._process = self._start()

    def send(self, number: signal.Signals) -> None:
        """A signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """With its JVM, if there is one."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()

    def end(self) -> None:
        """In order."""
        self._process.terminate()
        self._process.join(60)
        self.kill()
