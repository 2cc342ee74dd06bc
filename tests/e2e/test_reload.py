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


def _moirae(system: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "moirae",
        *arguments,
        "--workspace",
        str(system.root / "moirae.yaml"),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def _status(system: Stage) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(_moirae(system, "status", "-o", "json").stdout)
    return status


def _wait_for(system: Stage, version: str | None) -> None:
    """Until the desired rules have this version of the extra rule, and run so."""

    def reached() -> bool:
        query = "SELECT version FROM deployments WHERE rule = 'load/Extra' AND state = 'running'"
        desired = [
            d.version
            for d in RuleRegistry(system.connection).desired_rules()
            if d.name == "load/Extra"
        ]
        running = [row[0] for row in system.connection.execute(query)]
        return running == desired and bool(running) == (version is not None)

    system.wait(reached, 250)


def test_changed_rule_files_are_applied_and_invalid_ones_rejected() -> None:
    with stage(SEED, rate=100) as system:
        rules = system.root / "rules.yaml"
        system.up()
        system.producer.start()
        system.wait(lambda: system.archived_units() > 0, 250)
        rules.write_text(RULES + EXTRA.format(version=1, limit=50))
        _wait_for(system, "1")
        revision = sql.RuleGateway(system.connection).revision()
        rules.write_text(RULES + EXTRA.format(version=2, limit="nothing"))
        system.wait(lambda: bool(sql.RuleFileGateway(system.connection).get_state().problems), 250)
        assert sql.RuleGateway(system.connection).revision() == revision
        shown = _moirae(system, "status")
        assert shown.returncode == 1
        assert "rules.yaml:" in shown.stdout + shown.stderr
        assert _status(system)["rule_files"]["problems"]
        answered = sql.RuleFileGateway(system.connection).get_state().answered
        assert system._up is not None
        system._up.send_signal(signal.SIGHUP)
        system.wait(
            lambda: sql.RuleFileGateway(system.connection).get_state().answered > answered, 250
        )
        assert (
            RuleRegistry(system.connection).reload_problems(answered + 1)
            == sql.RuleFileGateway(system.connection).get_state().problems
        )
        rules.write_text(RULES)
        _wait_for(system, None)
        assert not _status(system)["rule_files"]["problems"]
        system.producer.stop()
        assert system.down() < 30
        system.drain()
        system.check(besides=("load/Extra",))


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
            request = sql.RuleFileGateway(system.connection).request_reload()
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
        _wait_for(system, None)
        system.producer.stop()
        assert system.down() < 30
        system.drain()
        figures = system.check(besides=("load/Extra",))
        cpu = {row["n"]: row["cpu"] for row in system.producer.rows}
        extra = system.connection.execute(
            "SELECT eid, attributes FROM events WHERE rule = 'load/Extra'"
        ).fetchall()
        print(f"100 reloads: {figures}, {len(extra)} events of the rule that comes and goes")
        assert len({eid for eid, _ in extra}) == len(extra) > 0
        assert all(cpu[attributes["n"]] > 80 for _, attributes in extra)
