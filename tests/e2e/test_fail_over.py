"""Two machines with one database and one bucket: the second takes over when the first one fails.

No row that HTTP or the bucket has accepted is lost, none is archived twice.
"""

import threading
import time
from pathlib import Path

import pytest

from tests.machines import Machines, machines

_TIMEOUT = 240.0  # seconds; a loaded machine takes tens of seconds for a start


def _deliver_until(running: Machines, stop: threading.Event) -> None:
    while not stop.wait(0.3):
        running.put(5)
        running.post(5)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["killed", pytest.param("frozen", marks=pytest.mark.slow)])
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
