"""A real broker: each record is archived once, by offset, also when the broker and the live process
are killed.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from archiver.spark.paths import JARS as ENGINE_JARS
from moirae.inspect.doctor import run_checks
from tests.broker import JARS, Broker
from tests.faults.harness import RULES, WORKSPACE, Producer, Stage, kill, workspace

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))

pytestmark = pytest.mark.skipif(
    not (JARS.is_dir() and list(ENGINE_JARS.glob("*kafka*"))),
    reason="no Kafka here: `make setup broker` fetches it",
)


@dataclass
class Sender(Producer):
    """Sends rows by host to the partitions of a topic; a row counts as accepted when the broker has
    confirmed it.
    """

    servers: str = ""
    refused: list[str] = field(default_factory=list)

    def start(self) -> None:
        """In a thread of its own."""
        from confluent_kafka import Producer as Client

        settings = {"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 20}
        self.client = Client({**settings, "delivery.timeout.ms": 600_000, "log_level": 0})
        super().start()

    def send(self, rows: list[dict[str, Any]]) -> None:
        """Hand rows to the client; bytes that are no row as they are."""
        for row in rows:
            self.client.produce(
                "cpu", json.dumps(row).encode(), key=row["host"], on_delivery=self._delivered
            )

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refused.append(str(error))
        else:
            self.rows.append(json.loads(message.value()))

    def _produce(self) -> None:
        rng, number = random.Random(self.seed), 0
        while not self._stop.is_set():
            number += 1
            self.send(
                [
                    self._row(rng, datetime.now(UTC), number, i)
                    for i in range(int(self.rate * self.STEP))
                ]
            )
            self.client.poll(0)
            self._stop.wait(self.STEP)
        assert self.client.flush(300) == 0


@contextmanager
def _stage(rate: int) -> Iterator[tuple[Stage, Sender, Broker]]:
    topic = "{files: landing/cpu/*.jsonl}"
    with workspace("", RULES) as root:
        broker = Broker(root)
        source = f'{{kafka: {{servers: "{broker.address}", topic: cpu}}}}'
        (root / "moirae.yaml").write_text(WORKSPACE.replace(topic, source))
        broker.start()
        system = Stage(root, SEED)
        sender = Sender(root / "landing", rate, SEED, servers=broker.address)
        system.producer = sender
        try:
            yield system, sender, broker
        finally:
            sender._stop.set()
            if system._up is not None and system._up.poll() is None:
                system._up.terminate()
                system._up.wait(60)
            broker.kill()
            system.connection.close()


def _units(system: Stage) -> list[tuple[str, int, int, int]]:
    return system.connection.execute(
        "SELECT unit, read, malformed, tombstones FROM units WHERE done ORDER BY unit"
    ).fetchall()


@pytest.mark.slow
def test_drain_reads_each_record_up_to_its_start_offsets_once() -> None:
    with _stage(600) as (system, sender, _):
        sender.start()
        time.sleep(1)
        sender.client.produce("cpu", b"no row", key="h0")
        sender.client.produce("cpu", None, key="h1")
        sender.stop()
        system.drain()
        figures = system.check()
        assert figures["events"] > 0
        units = _units(system)
        assert sum(read for _, read, *_ in units) == figures["rows"] + 1
        assert sum(malformed for *_, malformed, _ in units) == 1
        assert sum(tombstones for *_, tombstones in units) == 1
        assert {unit.split("/")[1] for unit, *_ in units} == {"0", "1"}
        assert not [
            finding
            for finding in run_checks(system.settings, system.connection)
            if finding.problems
        ]


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_killed_broker_and_live_process_neither_lose_nor_repeat_records() -> None:
    print(f"seed {SEED}")
    with _stage(300) as (system, sender, broker):
        system.up()
        sender.start()
        rng = random.Random(SEED)
        for number in range(4):
            before = system.archived_units()
            system.wait(lambda before=before: system.archived_units() > before, 400)
            time.sleep(rng.uniform(0, 3))
            if number % 2 == 0:
                broker.kill()
                time.sleep(rng.uniform(1, 10))
                broker.start()
            else:
                system.wait(lambda: kill(system.live()), 240)
            print(f"kill {number + 1}: {before} units archived before", flush=True)
        before = system.archived_units()
        system.wait(lambda: system.archived_units() > before, 400)
        sender.stop()
        system.down()
        system.drain()
        figures = system.check()
        print(figures)
        assert sender.refused == []
        assert figures["events"] > 0
