"""A producer that posts its rows over HTTP; that of the harness writes files."""

import itertools
import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson

from moirae.server import tokens
from tests.faults.harness import WORKSPACE, Producer, Stage, workspace


@dataclass
class Poster(Producer):
    """Posts batches one after the other, each under a key of its own, until it is answered."""

    url: str = ""
    token: str = ""
    retries: int = 0
    away: int = 0
    """How often it was told that the server cannot take rows now."""

    def _produce(self) -> None:
        rng, due = random.Random(self.seed), time.monotonic()
        with httpx.Client() as client:
            for number in itertools.count(1):
                if self._stop.is_set():
                    return
                now = datetime.now(UTC)
                rows = [self._row(rng, now, number, i) for i in range(int(self.rate * self.STEP))]
                self._post(client, number, b"\n".join(map(orjson.dumps, rows)))
                self.rows += rows
                due += self.STEP
                self._stop.wait(max(0.0, due - time.monotonic()))

    def _post(self, client: httpx.Client, number: int, content: bytes) -> None:
        headers = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {self.token}"}
        while True:
            try:
                answer = client.post(
                    self.url, content=content, headers={**headers, "Idempotency-Key": f"b{number}"}
                )
            except httpx.TransportError:
                pass
            else:
                if answer.status_code == 202:
                    return
                assert answer.status_code in (429, 503), answer.text
                self.away += 1
            self.retries += 1
            time.sleep(0.1)


@contextmanager
def posted(
    seed: int, rules: str, rate: int = 300, database: str | None = None
) -> Iterator[tuple[Stage, Poster, str]]:
    """A stage whose rows are posted, its producer, and the server's address. Everything in it ends
    with it.

    `database`: a DSN, where the workspace has no embedded one.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = WORKSPACE.replace("{files: landing/cpu/*.jsonl}", "{http: true}").replace(
        "127.0.0.1:0", address
    )
    if database is not None:
        settings += f'database: "{database}"\n'
    with workspace(settings, rules) as root:
        system = Stage(root, seed)
        token = tokens.create_token(system.connection, "producer", "operator")
        system.producer = Poster(
            Path(root), rate, seed, url=f"http://{address}/api/v1/ingest/cpu", token=token
        )
        try:
            yield system, system.producer, address
        finally:
            system.end()
