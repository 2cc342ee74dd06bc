"""Two machines with one database and one bucket: the second takes over when the first one fails.

No row that HTTP or the bucket has accepted is lost, none is archived twice.
"""

import threading
import time
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.machines import Machines, machines
from tests.topics import STREAM, Topics, needs_broker

_TIMEOUT = 240.0  # seconds; a loaded machine takes tens of seconds for a start


def _deliver_until(running: Machines, stop: threading.Event) -> None:
    while not stop.wait(0.3):
        running.put(5)
        running.post(5)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["killed", "frozen"])
@pytest.mark.slow
def test_second_machine_takes_over(fault: str, tmp_path: Path, bucket: str) -> None:
    with machines(tmp_path, bucket) as running:
        running.one.up()
        running.wait(lambda: running.post(5), _TIMEOUT)
        running.wait_until_archived(_TIMEOUT)
        running.two.up()
        running.wait(lambda: running.waits(running.two), _TIMEOUT)
        stop = threading.Event()
        delivery = threading.Thread(target=_deliver_until, args=(running, stop))
        delivery.start()
        try:
            time.sleep(3)
            assert running.runs_live(running.one)
            if fault == "killed":
                running.one.kill()
            else:
                running.one.freeze()
            running.wait(lambda: running.runs_live(running.two), _TIMEOUT)
            if fault == "frozen":
                running.one.thaw()
                running.wait(running.one.has_ended, _TIMEOUT)
            posted = len(running.accepted["posted"])
            running.wait(lambda: len(running.accepted["posted"]) > posted, _TIMEOUT)
        finally:
            stop.set()
            delivery.join()
        running.wait_until_archived(_TIMEOUT)
        running.check()
        assert not running.waits(running.two)


@pytest.mark.slow
@needs_broker
@pytest.mark.timeout(900)
def test_machine_without_checkpoints_reads_a_topic_on(tmp_path: Path, bucket: str) -> None:
    """The ledger in the database has the offsets; the home of the second machine is empty."""
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker")
    try:
        broker.start()
        topics = Topics(broker)
        topics.create("x", partitions=3)
        stream = STREAM.format(name="topic", servers=broker.address, topic="x", more="")
        with machines(tmp_path, bucket, stream) as running:
            topics.send_rows("x", "before", 60, partition=1)
            running.one.up()
            running.wait(lambda: running.counted() == 60, _TIMEOUT)
            running.one.kill()
            topics.send_rows("x", "after", 40, partition=1)
            assert not (running.two.root / "home").exists()
            running.two.up()
            running.wait(lambda: running.counted() == 100, _TIMEOUT)
            topics.send_rows("x", "later", 20, partition=2)
            running.wait(lambda: running.counted() == 120, _TIMEOUT)
            keys = running.archived("topic", "k")
            assert len(keys) == len(set(keys)) == 120
            # Nothing was read twice.
            assert running.connection.execute(
                "SELECT sum(read), sum(duplicates) FROM units WHERE stream = 'topic'"
            ).fetchone() == (120, 0)
    finally:
        broker.kill()
