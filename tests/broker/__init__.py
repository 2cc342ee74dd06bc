"""A real Kafka broker (KRaft, one node) on loopback, for tests: killed and started again like any other process."""

import socket
import subprocess
import time
import uuid
from pathlib import Path

import pyspark

from archiver.spark.paths import INSTALL_FOLDER

JARS = INSTALL_FOLDER / "broker"

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
# Scala itself comes with Spark.
_SCALA = ":".join(map(str, Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar")))
_JAVA = [
    "java",
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-cp",
    f"{JARS}/*:{_SCALA}",
]


class Broker:
    """One broker with its folder; its address stays when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, controller = _free(), _free()
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._settings = folder / "server.properties"
        self._settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
        name = str(uuid.uuid4()).replace("-", "")[:22]
        assert (
            self._java(
                "kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._settings)
            ).wait(120)
            == 0
        )
        self._process: subprocess.Popen[bytes] | None = None

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [*_JAVA, main, *arguments], stdout=log, stderr=log, start_new_session=True
            )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = self._java("kafka.Kafka", str(self._settings))
        deadline = time.monotonic() + 180
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (self._folder / "broker.log").read_text()[-3000:]
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
