"""A webhook in a process of its own, which notes when each message came: `python -m benchmarks.webhook FILE`.

It answers each request with 200 and an empty body, and writes a line per message to the file.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Webhook:
    """A running webhook."""

    url: str
    file: Path

    def count(self) -> int:
        """Messages so far."""
        return self.file.read_bytes().count(b"\n")

    def read(self) -> list[dict[str, Any]]:
        """Messages in order: `at` in seconds of the clock, and `alerts` as they were sent."""
        return [orjson.loads(line) for line in self.file.read_bytes().splitlines()]


@contextmanager
def running_webhook(folder: Path) -> Iterator[Webhook]:
    """Start a webhook on a free port of the loopback device."""
    file = folder / "messages.jsonl"
    file.write_bytes(b"")
    command = [sys.executable, "-m", "benchmarks.webhook", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        yield Webhook(f"http://127.0.0.1:{port}/", file)
    finally:
        process.kill()
        process.wait()


async def _serve(file: Path) -> None:
    with file.open("ab", buffering=0) as messages:

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    lines = head.lower().split(b"\r\n")
                    (length,) = [line[15:] for line in lines if line[:15] == b"content-length:"]
                    body = orjson.loads(await reader.readexactly(int(length)))
                    row = {"at": time.time(), "alerts": body["alerts"]}
                    messages.write(orjson.dumps(row) + b"\n")
                    writer.write(_ANSWER)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 24)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
