"""Rule files of a running workspace: changed, broken, repaired, and reloaded by a signal."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

import sql
from moirae.deployments.registry import RuleRegistry
from tests.faults.harness import RULES, Stage, stage

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))

EXTRA = """
  - alert: Extra
    expr: SELECT host, n, ts, {version} AS version FROM cpu WHERE cpu > {limit}
    key: [host]
    id: [n]
    keep_firing_for: 1s
"""


def _moirae(made: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "moirae",
        *arguments,
        "--workspace",
        str(made.root / "moirae.yaml"),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def _status(made: Stage) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_moirae(made, "status", "-o", "json").stdout)
    return found


def _wait_for(made: Stage, version: str | None) -> None:
    """Until the desired rules have this version of the extra rule, and run so."""

    def reached() -> bool:
        query = "SELECT version FROM deployments WHERE rule = 'load/Extra' AND state = 'running'"
        desired = [
            d.version
            for d in RuleRegistry(made.connection).desired_rules()
            if d.name == "load/Extra"
        ]
        running = [row[0] for row in made.connection.execute(query)]
        return running == desired and bool(running) == (version is not None)

    made.wait(reached, 250)


def test_changed_rule_files_are_applied_and_invalid_ones_rejected() -> None:
    with stage(SEED, rate=100) as made:
        rules = made.root / "rules.yaml"
        made.up()
        made.producer.start()
        made.wait(lambda: made.archived_units() > 0, 250)
        rules.write_text(RULES + EXTRA.format(version=1, limit=50))
        _wait_for(made, "1")
        revision = sql.RuleGateway(made.connection).revision()
        rules.write_text(RULES + EXTRA.format(version=2, limit="nothing"))
        made.wait(lambda: bool(sql.RuleFileGateway(made.connection).get_state().problems), 250)
        assert sql.RuleGateway(made.connection).revision() == revision
        shown = _moirae(made, "status")
        assert shown.returncode == 1
        assert "rules.yaml:" in shown.stdout + shown.stderr
        assert _status(made)["rule_files"]["problems"]
        answered = sql.RuleFileGateway(made.connection).get_state().answered
        assert made._up is not None
        made._up.send_signal(signal.SIGHUP)
        made.wait(lambda: sql.RuleFileGateway(made.connection).get_state().answered > answered, 250)
        assert (
            RuleRegistry(made.connection).reload_problems(answered + 1)
            == sql.RuleFileGateway(made.connection).get_state().problems
        )
        rules.write_text(RULES)
        _wait_for(made, None)
        assert not _status(made)["rule_files"]["problems"]
        made.producer.stop()
        assert made.down() < 30
        made.drain()
        made.check(besides=("load/Extra",))


@pytest.mark.faults
@pytest.mark.timeout(3000)
def test_hundred_reloads_under_load_lose_no_event() -> None:
    """By ID: unchanged rules find what an undisturbed run finds, changed rules nothing twice or
    wrong.
    """
    print(f"seed {SEED}")
    rng, kinds, bad = random.Random(SEED), Counter[str](), False
    with stage(SEED) as made:
        rules = made.root / "rules.yaml"
        made.up()
        made.producer.start()
        made.wait(lambda: made.archived_units() > 0, 300)
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
            request = sql.RuleFileGateway(made.connection).request_reload()
            made.wait(
                lambda request=request: (
                    RuleRegistry(made.connection).reload_problems(request) is not None
                ),
                300,
            )
            bad = bad if text is None else kind == "bad"
            assert bool(RuleRegistry(made.connection).reload_problems(request)) == bad
            time.sleep(rng.uniform(0, 1))
            kinds[kind] += 1
            if number % 10 == 9:
                print(f"{number + 1} reloads: {dict(kinds)}", flush=True)
        rules.write_text(RULES)
        _wait_for(made, None)
        made.producer.stop()
        assert made.down() < 30
        made.drain()
        figures = made.check(besides=("load/Extra",))
        cpu = {row["n"]: row["cpu"] for row in made.producer.rows}
        extra = made.connection.execute(
            "SELECT eid, attributes FROM events WHERE rule = 'load/Extra'"
        ).fetchall()
        print(f"100 reloads: {figures}, {len(extra)} events of the rule that comes and goes")
        assert len({eid for eid, _ in extra}) == len(extra) > 0
        assert all(cpu[attributes["n"]] > 80 for _, attributes in extra)
