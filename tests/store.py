"""Object storage for tests: SeaweedFS, which speaks S3, on this machine, for as long as it is asked for."""

import json
import random
import shutil
import socket
import subprocess
import sysconfig
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.error import HTTPError, URLError

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

BUCKET = "archive-of-tests"
_KEY, _SECRET = "key-of-tests", "secret-of-tests"
_IDENTITY = {
    "name": "tests",
    "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}],
    "actions": ["Admin", "Read", "Write", "List"],
}
# Each port has another of its server's beside it.
_BESIDE = 10_000
# Seconds: until it answers.
_START = 60.0


@contextmanager
def serving(folder: Path) -> Iterator[Mapping[str, str]]:
    """A server with an empty bucket and its data in a folder: what the environment must hold to reach it."""
    program = shutil.which("weed", path=sysconfig.get_path("scripts"))
    assert program is not None, "SeaweedFS is not installed: make setup"
    (folder / "keys.json").write_text(json.dumps({"identities": [_IDENTITY]}))
    ports = _free_ports(4)
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
    environment = {
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[-1]}",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "-logtostderr", "server", *arguments], stdout=log, stderr=log
        )
        try:
            _await(process, environment, folder / "log")
            yield environment
        finally:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 30_000)
        if port not in found and all(map(_free, (port, port + _BESIDE))):
            found.append(port)
    return found


def _free(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def _await(process: "subprocess.Popen[bytes]", environment: Mapping[str, str], log: Path) -> None:
    """Until there is a bucket that takes objects."""
    store = S3Store(
        BUCKET,
        access_key_id=_KEY,
        secret_access_key=_SECRET,
        region="us-east-1",
        endpoint=environment["AWS_ENDPOINT_URL"],
        client_options={"allow_http": True},
    )
    deadline = time.monotonic() + _START
    while True:
        try:
            make = obstore.sign(store, "PUT", "", timedelta(minutes=1))
            _put(make)
            obstore.put(store, "there", b"x")
            obstore.delete(store, "there")
            return
        except (URLError, BaseError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(log.read_text()[-2000:]) from error
            time.sleep(0.1)


def _put(url: str) -> None:
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
    except HTTPError as error:
        if error.code != 409:
            raise
