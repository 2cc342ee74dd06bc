"""kill -9 of the server and of the live process while rows are posted: what was answered is archived once."""

import itertools
import os
import random
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
import orjson
import psutil
import pytest

from moirae.server import tokens
from tests.faults.harness import RULES, WORKSPACE, Producer, Stage, kill, workspace

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


@dataclass
class Poster(Producer):
    """Posts batches one after the other, each under a key of its own, until it is answered."""

    url: str = ""
    token: str = ""
    retries: int = 0

    def _produce(self) -> None:
        rng, due = random.Random(self.seed), time.monotonic()
        for number in itertools.count(1):
            if self._stop.is_set():
                return
            now = datetime.now(UTC)
            rows = [self._row(rng, now, number, i) for i in range(int(self.rate * self.STEP))]
            self._post(number, b"\n".join(map(orjson.dumps, rows)))
            self.rows += rows
            due += self.STEP
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _post(self, number: int, content: bytes) -> None:
        headers = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {self.token}"}
        while True:
            try:
                answer = httpx.post(self.url, content=content, headers={**headers, "Idempotency-Key": f"b{number}"})
            except httpx.TransportError:
                pass
            else:
                if answer.status_code == 202:
                    return
                assert answer.status_code in (429, 503), answer.text
            self.retries += 1
            time.sleep(0.1)


def _server(made: Stage) -> psutil.Process | None:
    row = made.connection.execute("SELECT pid FROM processes WHERE role = 'server'").fetchone()
    try:
        return psutil.Process(row[0]) if row else None
    except psutil.NoSuchProcess:
        return None


def _posted(made: Stage) -> int:
    row = made.connection.execute("SELECT count(*) FROM units WHERE done AND unit LIKE 'push-%'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.faults)])
@pytest.mark.timeout(1200)
def test_answered_rows_are_archived_once_and_judged_as_if_undisturbed(kills: int) -> None:
    print(f"seed {SEED}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    posted = WORKSPACE.replace("{files: landing/cpu/*.jsonl}", "{http: true}").replace("127.0.0.1:0", address)
    with workspace(posted, RULES) as root:
        made = Stage(root, SEED)
        token = tokens.create(made.connection, "producer", "operator")
        producer = Poster(root, 300, SEED, url=f"http://{address}/api/v1/ingest/cpu", token=token)
        made.producer = producer
        try:
            made.up()
            producer.start()
            rng = random.Random(SEED)
            for number in range(kills):
                before = _posted(made)
                made.wait(lambda before=before: _posted(made) > before, 240)
                time.sleep(rng.uniform(0, 2))
                victim = made.live if number % 2 else lambda: _server(made)
                made.wait(lambda victim=victim: kill(victim()), 240)
            before = _posted(made)
            made.wait(lambda: _posted(made) > before, 240)
        finally:
            producer.stop()
            made.down()
        made.drain()
        figures = made.check()
        print(f"{kills} kills, {producer.retries} tries in vain: {figures}")
        assert producer.retries > 0
        assert figures["events"] > 0
        assert list((root / ".moirae" / "landing" / "cpu").iterdir()) == []
        made.connection.close()
