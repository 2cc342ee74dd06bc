"""A public collection of detection rules finds the expected events, with each engine and live."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import Commands
from tests.sigma_collection import (
    Collection,
    require_collection,
    write_rows,
    write_workspace,
)

_TIMEOUT = 3_000.0  # seconds
_BATCHES = 20


@pytest.fixture(scope="module")
def collection() -> Collection:
    return require_collection()


def _drain(folder: Path) -> None:
    command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace"]
    done = subprocess.run(
        [*command, str(folder / "moirae.yaml")], capture_output=True, text=True, timeout=_TIMEOUT
    )
    assert done.returncode == 0, done.stderr[-5000:]


def _read_matches(commands: Commands) -> set[tuple[str, int]]:
    matches: set[tuple[str, int]] = set()
    for line in commands.output("export", "events").splitlines():
        event = json.loads(line)
        matches.add((event["rule"].split("/")[1], event["attributes"]["row"]))
    return matches


def _assert_expected(folder: Path, collection: Collection) -> None:
    names = {rule.name for rule in collection.rules}
    expected = {pair for pair in collection.matches if pair[0] in names}
    with Commands(folder) as commands:
        matches = _read_matches(commands)
        assert matches - expected == set(), "events that no rule should have"
        assert expected - matches == set(), "events that are missing"
        rules = commands.json("rules", "list")
        assert len(rules) == len(names)
        assert {rule["state"] for rule in rules} == {"running"}


def _select(collection: Collection, every: int) -> Collection:
    """Every n-th rule and each rule that matches a row."""
    matching = {name for name, _ in collection.matches}
    rules = [
        rule
        for number, rule in enumerate(collection.rules)
        if rule.name in matching or number % every == 0
    ]
    return collection._replace(rules=rules)


@pytest.mark.slow
def test_some_rules_find_the_expected_events(tmp_path: Path, collection: Collection) -> None:
    selected = _select(collection, every=50)
    folder = write_workspace(tmp_path, selected.rules)
    write_rows(folder / "landing" / "rows.jsonl", enumerate(collection.rows))
    _drain(folder)
    _assert_expected(folder, selected)


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
@pytest.mark.parametrize("engine", ["local", "auto", "spark"])
def test_all_rules_find_the_expected_events(
    tmp_path: Path, collection: Collection, engine: str
) -> None:
    folder = write_workspace(tmp_path, collection.rules, f"engine: {engine}\n")
    write_rows(folder / "landing" / "rows.jsonl", enumerate(collection.rows))
    _drain(folder)
    _assert_expected(folder, collection)


@pytest.mark.slow
@pytest.mark.timeout(_TIMEOUT)
def test_all_rules_find_the_expected_events_in_live_batches(
    tmp_path: Path, collection: Collection
) -> None:
    folder = write_workspace(tmp_path, collection.rules)
    numbered = list(enumerate(collection.rows))
    size = -(-len(numbered) // _BATCHES)
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(folder / "moirae.yaml")]
    with Commands(folder) as commands:
        commands.run("status")  # creates the database
        with (folder / "up.log").open("w") as log:
            up = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            for start in range(0, len(numbered), size):
                batch = numbered[start : start + size]
                write_rows(folder / "landing" / f"{start:04}.jsonl", batch)
                _wait_for_rows(commands, start + len(batch), up)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(120)
    _drain(folder)
    _assert_expected(folder, collection)


def _wait_for_rows(commands: Commands, count: int, up: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _TIMEOUT
    error = ""
    while time.monotonic() < deadline:
        assert up.poll() is None, "moirae up ended: see up.log"
        # Its exit code says whether a process is late, as on a busy machine.
        result = commands.run("status", "-o", "json")
        if result.stdout:
            status = json.loads(result.stdout)
            if status["accounting"]["archived"] >= count:
                return
        else:
            error = f"status: {result.stderr}"
        time.sleep(0.5)
    raise AssertionError(f"fewer than {count} rows are archived {error}")
