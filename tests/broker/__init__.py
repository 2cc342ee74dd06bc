"""A Kafka broker (KRaft, one node) on loopback, which tests can kill and restart."""

import socket
import subprocess
import time
import uuid
from pathlib import Path

import pyspark

from archiver.spark.paths import INSTALL_FOLDER
from tests.parent import end_with_parent

JARS = INSTALL_FOLDER / "broker"

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port}
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENT:{protocol}
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
# TLS with the certificate of a folder, and one user.
_SECURED = """
ssl.keystore.type=PEM
ssl.keystore.location={certificate}/keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location={certificate}/cert.pem
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.client.plain.sasl.jaas.config={login} required username="{user}" password="{password}" user_{user}="{password}";
"""
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER = "moirae"
# Spark's wheel contains the Scala library.
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
    """A broker with its data in a folder. Its address survives restarts."""

    def __init__(self, folder: Path, certificate: Path | None = None, password: str = "") -> None:
        """`certificate`: the folder of one, for TLS and the password of `USER`."""
        self._folder = folder
        port, controller_port = _free_port(), _free_port()
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._settings = folder / "server.properties"
        protocol = "SASL_SSL" if certificate else "PLAINTEXT"
        text = _SETTINGS.format(
            port=port, controller=controller_port, folder=folder, protocol=protocol
        )
        if certificate:
            text += _SECURED.format(
                certificate=certificate, login=PLAIN_LOGIN, user=USER, password=password
            )
        self._settings.write_text(text)
        cluster_id = str(uuid.uuid4()).replace("-", "")[:22]
        format_storage = self._start_java(
            "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._settings)
        )
        assert format_storage.wait(120) == 0
        self._process: subprocess.Popen[bytes] | None = None

    def _start_java(self, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [*_JAVA, main_class, *arguments],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def start(self) -> None:
        """Start the broker, and wait until it accepts connections."""
        self._process = self._start_java("kafka.Kafka", str(self._settings))
        deadline = time.monotonic() + 180
        while not self._accepts_connections():
            assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (self._folder / "broker.log").read_text()[-3000:]
            time.sleep(0.2)

    def _accepts_connections(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
