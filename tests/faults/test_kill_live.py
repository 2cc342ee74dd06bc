"""kill -9 of the live process and of its JVM at random moments under load: no row is lost or
archived twice. `tests/e2e/test_up.py` has a shorter case.
"""

import os
import random
import time

import pytest

from tests.faults.harness import Stage, kill, stage

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


def _kill_often(system: Stage, times: int, rng: random.Random) -> None:
    for number in range(times):
        before = system.archived_units()
        system.wait(lambda before=before: system.archived_units() > before, 400)
        time.sleep(rng.uniform(0, 2.5))
        victim = system.live if number % 2 == 0 else system.jvm
        system.wait(lambda victim=victim: kill(victim()), 240)
        print(f"kill {number + 1}: {before} units archived before", flush=True)


@pytest.mark.faults
@pytest.mark.parametrize("kills", [20])
@pytest.mark.timeout(2400)
def test_accepted_rows_are_archived_and_evaluated_once(kills: int) -> None:
    print(f"seed {SEED}")
    with stage(SEED) as system:
        system.up()
        system.producer.start()
        _kill_often(system, kills, random.Random(SEED))
        before = system.archived_units()
        system.wait(lambda: system.archived_units() > before, 400)
        system.producer.stop()
        assert system.down() < 30
        system.drain()
        figures = system.check()
        print(f"{kills} kills: {figures}")
        assert figures["events"] > 0
