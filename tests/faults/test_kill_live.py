"""kill -9 of the live process, of its JVM and of workers of tasks at random moments under load: no
row is lost or archived twice. `tests/e2e/test_up.py` has a shorter case.
"""

import os
import random
import time

import pytest

from tests.faults.harness import Stage, kill, stage

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


def _kill_often(system: Stage, times: int, rng: random.Random, engine: str) -> None:
    victims = [system.live, system.jvm]
    if engine == "spark":
        victims.append(system.python_worker)
    for number in range(times):
        before = system.archived_units()
        system.wait(lambda before=before: system.archived_units() > before, 400)
        time.sleep(rng.uniform(0, 2.5))
        victim = victims[number % len(victims)]
        system.wait(lambda victim=victim: kill(victim()), 240)
        print(f"kill {number + 1}: {before} units archived before", flush=True)


@pytest.mark.parametrize(
    ("engine", "kills"),
    [
        pytest.param("spark", 3, marks=pytest.mark.slow),
        *(pytest.param(name, 20, marks=pytest.mark.faults) for name in ("auto", "spark")),
    ],
)
@pytest.mark.timeout(2400)
def test_accepted_rows_are_archived_and_evaluated_once(engine: str, kills: int) -> None:
    print(f"seed {SEED}")
    with stage(SEED, engine=engine) as system:
        system.up()
        system.producer.start()
        _kill_often(system, kills, random.Random(SEED), engine)
        before = system.archived_units()
        system.wait(lambda: system.archived_units() > before, 400)
        system.producer.stop()
        assert system.down() < 30
        system.drain()
        figures = system.check()
        print(f"{kills} kills: {figures}")
        assert figures["events"] > 0
