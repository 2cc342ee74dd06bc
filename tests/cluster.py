"""A Spark cluster for tests: a standalone master and workers, each as if it were a machine.

A worker has a mount namespace of its own, in which the folders of temporary files of this machine
are empty: there is no file of the driver, of a workspace or of the store. What set-up installs is
there, as on a machine that was set up. Its environment has the keys of the bucket and little else.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil
import pyspark

from tests.parent import end_with_parent

SECRET = "secret-of-tests-for-the-cluster"
SECRET_VARIABLE = "MOIRAE_SPARK_SECRET"
_HOST = "127.0.0.1"
_SPARK = Path(pyspark.__file__).parent
_START_TIMEOUT = 120.0  # seconds; a loaded machine takes tens of seconds
_DAEMON_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dspark.authenticate=true",
    "-Dspark.network.crypto.enabled=true",
    # It would accept applications without the secret.
    "-Dspark.master.rest.enabled=false",
    # A worker that was killed is noticed by its connection; this is for one that is frozen.
    "-Dspark.worker.timeout=10",
)
_BUCKET_VARIABLES = re.compile("AWS_.*")
# Root needs no user namespace; others get one in which they may mount.
_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc")
_HIDE = """
set -e
for folder in "$@"; do [ "$folder" = -- ] && break; mount -t tmpfs none "$folder"; shift; done
shift
cd "$WORK"
exec "$@"
"""


@cache
def find_isolation() -> list[str] | None:
    """The command that runs another one in namespaces of its own; None: not permitted here."""
    program = shutil.which("unshare")
    if program is None:
        return None
    for user in ((), ("--user", "--map-root-user")):
        command = [program, *user, *_NAMESPACES]
        probe = [*command, "mount", "-t", "tmpfs", "none", tempfile.gettempdir()]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return command
    return None


def _hidden_folders() -> list[str]:
    """Where tests and processes of this machine have their files."""
    folders = {
        Path(tempfile.gettempdir()).resolve(),
        Path("/tmp"),
        Path("/var/tmp"),
        Path("/dev/shm"),
    }
    return sorted(str(folder) for folder in folders if folder.is_dir())


@dataclass
class Daemon:
    """A master or worker. `log`: the file of its output."""

    process: psutil.Process
    log: Path

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors that it has started."""
        with suppress(psutil.NoSuchProcess):
            return [child for child in self.process.children(recursive=True) if _is_executor(child)]
        return []

    def kill(self) -> None:
        """kill -9 of it and what it has started."""
        with suppress(psutil.NoSuchProcess):
            for process in [*self.process.children(recursive=True), self.process]:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            self.process.wait(30)


def _is_executor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline()
    return False


@dataclass
class Cluster:
    """The daemons, by folder. `url`: the master, for `spark.master`."""

    folder: Path
    bucket_environment: Mapping[str, str]
    secret: str = SECRET
    url: str = ""
    master: Daemon | None = None
    workers: list[Daemon] = field(default_factory=list)
    executor_environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, worker_count: int) -> None:
        """Start master and workers of one core each, and wait until they are registered."""
        self.start_master()
        for _ in range(worker_count):
            self.start_worker()
        self.wait(lambda: self.registered_workers() >= worker_count)

    def start_master(self) -> None:
        """Start the master; again after it was killed, at the same address."""
        port = self.url.rpartition(":")[2] or "0"
        arguments = ["org.apache.spark.deploy.master.Master", "--host", _HOST, "--port", port]
        self.master = self._launch("master", [], [*arguments, "--webui-port", "0"])
        log = self.master.log
        self.wait(lambda: re.search(r"Starting Spark master at (\S+)", log.read_text()) is not None)
        match = re.search(r"Starting Spark master at (\S+)", log.read_text())
        assert match is not None
        self.url = match[1]

    def start_worker(self) -> Daemon:
        """Start one more worker."""
        isolation = find_isolation()
        assert isolation is not None
        hide = [*isolation, "sh", "-c", _HIDE, "sh", *_hidden_folders(), "--"]
        arguments = ["org.apache.spark.deploy.worker.Worker", "--host", _HOST, "--cores", "1"]
        arguments += ["--memory", "2g", "--webui-port", "0", "--work-dir", "/tmp/work", self.url]
        worker = self._launch(f"worker-{len(self.workers)}", hide, arguments)
        self.workers.append(worker)
        return worker

    def _launch(self, name: str, prefix: Sequence[str], arguments: Sequence[str]) -> Daemon:
        java = (
            str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
            if "JAVA_HOME" in os.environ
            else "java"
        )
        program = shutil.which(java)
        assert program is not None
        command = [*prefix, program, "-cp", f"{_SPARK}/jars/*", *_DAEMON_OPTIONS, *arguments]
        environment = {
            "PATH": f"{Path(program).parent}:{os.environ['PATH']}",
            "SPARK_HOME": str(_SPARK),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": _HOST,
            "_SPARK_AUTH_SECRET": self.secret,
            "WORK": "/tmp" if prefix else str(self.folder),
            **self.bucket_environment,
            **self.executor_environment,
        }
        if "JAVA_HOME" in os.environ:
            environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=environment,
                preexec_fn=end_with_parent,
            )
        return Daemon(psutil.Process(process.pid), log)

    def registered_workers(self) -> int:
        """How many workers have registered with the master so far."""
        assert self.master is not None
        return self.master.log.read_text().count("Registering worker")

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors of all workers."""
        return [executor for worker in self.workers for executor in worker.executors()]

    def worker_folders(self) -> list[list[str]]:
        """By worker: folders of workspaces and tests that it sees; a machine of its own has none."""
        return [
            [
                path.name
                for path in Path(f"/proc/{java.pid}/root/tmp").iterdir()
                if path.name.startswith(("moirae-test", "pytest"))
            ]
            for worker in self.workers
            for java in worker.process.children()[:1]
        ]

    def wait(self, condition: Callable[[], bool], seconds: float = _START_TIMEOUT) -> None:
        """Until a condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.describe()
            time.sleep(0.05)

    def describe(self) -> str:
        """The ends of all logs."""
        return "\n".join(
            f"{log.name}: {log.read_text(errors='replace')[-3000:]}"
            for log in sorted(self.folder.glob("*.log"))
        )

    def stop(self) -> None:
        """End all processes."""
        for daemon in [*self.workers, *([self.master] if self.master else [])]:
            daemon.kill()

    def workspace_settings(self, live: int = 1, recall: int = 1) -> str:
        """The part of `moirae.yaml` that lets a workspace use it."""
        return f"""
spark:
  master: {self.url}
  secret: "${{{SECRET_VARIABLE}}}"
  cores: {{live: {live}, recall: {recall}}}
  conf:
    spark.driver.host: {_HOST}
    spark.driver.bindAddress: {_HOST}
    spark.executor.memory: 512m
    spark.driver.memory: 1g
"""


@contextmanager
def cluster(folder: Path, environment: Mapping[str, str], workers: int = 2) -> Iterator[Cluster]:
    """A cluster whose logs are in a folder. `environment`: with the keys of the bucket."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {name: value for name, value in environment.items() if _BUCKET_VARIABLES.match(name)}
    running = Cluster(folder, keys)
    try:
        running.start(workers)
        yield running
    finally:
        running.stop()
