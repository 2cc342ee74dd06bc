"""Rule files of a running workspace change all the time; `tests/e2e/test_up.py` has a shorter case."""

import os
import random
import time
from collections import Counter

import pytest

from moirae.deployments.registry import RuleRegistry
from sql.rules import RuleFileGateway
from tests.faults.harness import RULES, stage
from tests.faults.reloading import EXTRA, wait_for_extra

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


@pytest.mark.faults
@pytest.mark.timeout(3000)
def test_hundred_reloads_under_load_lose_no_event() -> None:
    """By ID: unchanged rules find what an undisturbed run finds, changed rules nothing twice or
    wrong.
    """
    print(f"seed {SEED}")
    rng, kinds, bad = random.Random(SEED), Counter[str](), False
    with stage(SEED) as system:
        rules = system.root / "rules.yaml"
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 0, 300)
        for number in range(100):
            kind = rng.choice(["add", "add", "change", "remove", "same", "bad"])
            extra = EXTRA.format(version=number, limit=rng.choice([80, 90]))
            text = {
                "remove": "",
                "same": None,
                "bad": EXTRA.format(version=1, limit="nothing"),
            }.get(kind, extra)
            if text is not None:
                rules.write_text(RULES + text)
            request = RuleFileGateway(system.connection).request_reload()
            system.wait(
                lambda request=request: (
                    RuleRegistry(system.connection).reload_problems(request) is not None
                ),
                300,
            )
            bad = bad if text is None else kind == "bad"
            assert bool(RuleRegistry(system.connection).reload_problems(request)) == bad
            time.sleep(rng.uniform(0, 1))
            kinds[kind] += 1
            if number % 10 == 9:
                print(f"{number + 1} reloads: {dict(kinds)}", flush=True)
        rules.write_text(RULES)
        wait_for_extra(system, None)
        system.producer.stop()
        assert system.down() < 30
        system.drain()
        figures = system.check(besides=("load/Extra",))
        cpu = {row["n"]: row["cpu"] for row in system.producer.rows}
        extra = system.connection.execute(
            # Each version has a past of its own.
            "SELECT eid, attributes FROM events WHERE rule = 'load/Extra' AND NOT past"
        ).fetchall()
        print(f"100 reloads: {figures}, {len(extra)} events of the rule that comes and goes")
        assert len({eid for eid, _ in extra}) == len(extra) > 0
        assert all(cpu[attributes["n"]] > 80 for _, attributes in extra)
