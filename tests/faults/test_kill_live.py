"""kill -9 of the live process, of its JVM and of workers of tasks at random moments under load: no
row is lost or archived twice, with any engine. `tests/e2e/test_up.py` has a shorter case.

`MOIRAE_FAULT_SEED` chooses the moments, and `-k auto-20` an engine.
"""

import os
import random
import time

import pytest

from tests.faults.harness import Stage, kill, stage

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
# Rows from which auto uses executors: a file has 50, so that both engines archive batches.
LARGE_BATCH = 75


def _kill_often(system: Stage, times: int, rng: random.Random, engine: str) -> None:
    victims = [system.live, system.jvm]
    if engine != "local":
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
        *(pytest.param(name, 20, marks=pytest.mark.faults) for name in ("local", "auto", "spark")),
    ],
)
@pytest.mark.timeout(2400)
def test_accepted_rows_are_archived_and_evaluated_once(engine: str, kills: int) -> None:
    print(f"seed {SEED}")
    with stage(SEED, engine=engine) as system:
        with (system.root / "moirae.yaml").open("a") as settings:
            settings.write(f"spark: {{large_batch: {LARGE_BATCH}}}\n")
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
