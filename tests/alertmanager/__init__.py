"""The real Alertmanager, which tests compare notifications with. `make alertmanager` fetches it."""

import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

FOLDER = Path(__file__).parents[2] / ".alertmanager"


def find_program(name: str) -> str | None:
    """The path of `prometheus-alertmanager` or `amtool`; None: it is not there."""
    fetched = FOLDER / "usr" / "bin" / name
    return str(fetched) if fetched.exists() else shutil.which(name)


class Alertmanager:
    """A running Alertmanager."""

    def __init__(self, url: str) -> None:
        self.url = url

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to its API."""
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=5) as response:
            content = response.read()
        return json.loads(content) if content else None

    def is_ready(self) -> bool:
        try:
            self.request("GET", "status")
        except OSError:
            return False
        return True


@contextmanager
def running_alertmanager(config: str, folder: Path) -> Iterator[Alertmanager]:
    """Start the program with a configuration; its state is in a folder."""
    program = find_program("prometheus-alertmanager")
    assert program is not None
    file = folder / "alertmanager.yml"
    file.write_text(config)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            program,
            f"--config.file={file}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            "--log.level=error",
        ]
    )
    try:
        alertmanager = Alertmanager(f"http://127.0.0.1:{port}")
        wait_until(alertmanager.is_ready)
        yield alertmanager
    finally:
        process.kill()
        process.wait()
