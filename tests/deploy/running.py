"""The services of the compose file on loopback, with its settings but for addresses and folders."""

import os
import random
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.deploy import DEPLOY, read_yaml
from tests.parent import end_with_parent

SERVICES = read_yaml(DEPLOY / "compose" / "compose.yaml")["services"]
ACCESS_KEY = "access-key-of-tests"
SECRET_KEY = "secret-key-of-tests"


def free_port() -> int:
    """A port that is free with those that SeaweedFS derives from it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as first, socket.socket() as second:
            addresses = [("127.0.0.1", number) for number in (port, port + 10_000)]
            sockets = zip((first, second), addresses, strict=True)
            if all(client.connect_ex(address) != 0 for client, address in sockets):
                return port


def wait_for(condition: Callable[[], Any], seconds: float, log: Path | None = None) -> Any:
    """The first value of a condition that is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, log.read_text()[-3000:] if log else condition
        time.sleep(0.3)


@contextmanager
def running(
    command: list[str], log: Path, environment: Mapping[str, str], folder: Path | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process with its output in a file; it is killed at the end if it still runs."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            cwd=folder,
            env={**os.environ, **environment},
            preexec_fn=end_with_parent,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def object_storage(folder: Path) -> Iterator[Mapping[str, str]]:
    """The service `storage`; yields the environment of its clients."""
    program = shutil.which("weed", path=sysconfig.get_path("scripts"))
    assert program is not None, "SeaweedFS is not installed: make setup"
    service = SERVICES["storage"]
    places = {"-dir": str(folder), "-ip": "127.0.0.1", "-ip.bind": "127.0.0.1"}
    arguments = []
    for argument in service["command"]:
        name, _, _ = argument.partition("=")
        arguments.append(f"{name}={places[name]}" if name in places else argument)
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    arguments += [f"-{name}.port={port}" for name, port in ports.items()]
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    assert service["environment"].keys() == keys.keys()
    url = f"http://127.0.0.1:{ports['s3']}"
    log = folder / "log"
    with running([program, "-logtostderr", *arguments], log, keys):
        # As the health check does.
        assert service["healthcheck"]["test"][-1].endswith("/healthz")
        wait_for(lambda: _is_ok(f"{url}/healthz"), 90, log)
        _create_bucket(program, f"127.0.0.1:{ports['master']}")
        yield {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url}


def _create_bucket(program: str, master: str) -> None:
    """As the service `bucket` does, twice: it runs at each start."""
    service = SERVICES["bucket"]
    (script,) = service["command"]
    script = script.replace("weed shell", f"{program} shell").replace("storage:9333", master)
    assert script.count(f"{program} shell -master={master}") == 2
    for _ in range(2):
        subprocess.run([*service["entrypoint"], script], check=True, timeout=60)


def _is_ok(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def broker_settings() -> str:
    """The settings of the service `kafka`, as a template of `tests.broker`."""
    addresses = {
        "localhost:9093": "127.0.0.1:{controller}",
        "kafka:9092": "127.0.0.1:{port}",
        "//:9092": "//127.0.0.1:{port}",
        "/var/lib/kafka/data": "{folder}/log",
    }
    lines = []
    for name, value in SERVICES["kafka"]["environment"].items():
        text = str(value)
        for address, replacement in addresses.items():
            text = text.replace(address, replacement)
        key = name.removeprefix("KAFKA_").lower().replace("_", ".")
        lines.append(f"{key}={text}\n")
    return "".join(lines)
