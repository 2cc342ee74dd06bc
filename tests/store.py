"""Object storage for tests: a SeaweedFS server with an S3 interface on this machine."""

import json
import random
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.parent import end_with_parent

BUCKET = "archive-of-tests"
_KEY = "key-of-tests"
_SECRET = "secret-of-tests"
_IDENTITY = {
    "name": "tests",
    "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
    "actions": ["Admin", "Read", "Write", "List"],
}
# Each server also listens on its port plus this number, for gRPC.
_GRPC_PORT_OFFSET = 10_000
_START_TIMEOUT = 180.0  # seconds; a loaded machine takes tens of seconds
_MAX_STARTS = 3  # another process may take a port that was free


class Store:
    """A server that stores its data in a folder, with a bucket.

    `environment`: the environment variables with which clients reach it.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("weed", path=sysconfig.get_path("scripts"))
        assert program is not None, "SeaweedFS is not installed: make setup"
        self._program = program
        self._folder = folder
        (folder / "keys.json").write_text(json.dumps({"identities": [_IDENTITY]}))
        for _ in range(_MAX_STARTS):
            self._ports = _free_ports(4)
            self.environment = _describe_clients(self._ports)
            if self.start():
                return
        raise RuntimeError((folder / "log").read_text()[-2000:])

    def start(self) -> bool:
        """Start it, also again, at the same address. False: it has ended at once."""
        self._process = _launch(self._program, self._folder, self._ports)
        try:
            return _wait_until_ready(self._process, self.environment)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """kill -9: clients are refused."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stop it where it is: clients wait."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def serving(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a server with an empty bucket. Yields the environment of its clients."""
    store = Store(folder)
    try:
        yield store.environment
    finally:
        store.kill()


def _describe_clients(ports: Sequence[int]) -> Mapping[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[-1]}",
    }


def _launch(program: str, folder: Path, ports: Sequence[int]) -> "subprocess.Popen[bytes]":
    arguments = [
        *(
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={folder}",
            "-s3",
            f"-s3.config={folder}/keys.json",
        ),
        *(
            f"-{name}.port={port}"
            for name, port in zip(("master", "volume", "filer", "s3"), ports, strict=True)
        ),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"),
        *("-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64", "-volume.max=50"),
    ]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [program, "-logtostderr", "server", *arguments],
            stdout=log,
            stderr=log,
            preexec_fn=end_with_parent,
        )


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(20_000, 30_000)
        if port not in ports and all(map(_is_free, (port, port + _GRPC_PORT_OFFSET))):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def _wait_until_ready(process: "subprocess.Popen[bytes]", environment: Mapping[str, str]) -> bool:
    """Create the bucket, and wait until it accepts objects. False: the server has ended."""
    store = S3Store(
        BUCKET,
        access_key_id=_KEY,
        secret_access_key=_SECRET,
        region="us-east-1",
        endpoint=environment["AWS_ENDPOINT_URL"],
        client_options={"allow_http": True},
    )
    deadline = time.monotonic() + _START_TIMEOUT
    while True:
        try:
            url = obstore.sign(store, "PUT", "", timedelta(minutes=1))
            _create_bucket(url)
            obstore.put(store, "probe", b"x")
            obstore.delete(store, "probe")
            return True
        except (OSError, HTTPException, BaseError):
            # While it starts, it also drops connections that it has accepted.
            if process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def put_object(url: str, content: bytes) -> None:
    """Store an object; the environment has the keys of the bucket."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    store = S3Store(bucket, client_options={"allow_http": True})
    obstore.put(store, key, content)


def _create_bucket(url: str) -> None:
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
    except HTTPError as error:
        if error.code != 409:  # conflict: the bucket exists
            raise
