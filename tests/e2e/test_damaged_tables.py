"""Each table that is written from the database, or computed, is damaged: `doctor` names it, and a repair
brings its rows back.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from moirae.config import load_settings_from_environment
from moirae.runtime.storage import open_storage
from tests.commands import Commands
from tests.landing import put_file
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = 300
WORKSPACE = """
home: .moirae
streams:
  load:
    columns: {ts: timestamp, node: string, cpu: double}
    time: ts
    key: [node]
    source: {files: landing/*.jsonl}
chunks: {rows: 200, age: 1h}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  derived:
  - stream: kept
    archive: true
    expr: SELECT node, ts, cpu FROM load WHERE cpu > 25
  rules:
  - alert: Overloaded
    expr: SELECT node, ts, cpu FROM load WHERE cpu > 90
    key: [node]
    context:
      light: {sql: SELECT node FROM load WHERE cpu < 30, within: 1m}
    recall:
      norm:
        sql: SELECT avg(h.cpu) AS mean FROM load h WHERE h.node = event.node
      often: {sql: SELECT count(*) AS n FROM kept k WHERE k.node = event.node}
    then:
    - stream: names
      sql: SELECT l.node AS node FROM light l GROUP BY l.node
"""
CLOSED_CHUNKS = 6
COMPUTED_WITHIN = 600.0  # seconds
KINDS = {"events", "contexts", "derived", "revisions", "rows", "summaries"}


@pytest.fixture(scope="module")
def drained() -> Iterator[Commands]:
    root = Path(tempfile.mkdtemp(prefix="moirae-damaged-"))
    root.chmod(0o755)
    (root / "moirae.yaml").write_text(WORKSPACE)
    (root / "rules.yaml").write_text(RULES)
    (root / "landing").mkdir()
    put_file(root / "landing" / "day.jsonl", "".join(map(_line, range(MINUTES * 4))))
    with Commands(root) as commands:
        commands.output("up", "--drain")
        _compute_derived(commands)
        commands.output("doctor")
        yield commands
    shutil.rmtree(root, ignore_errors=True)


def _compute_derived(commands: Commands) -> None:
    """Run the workspace until all closed chunks of the derived stream are computed, which a drain
    does not wait for.
    """
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(commands.root)]
    with (commands.root / "up.log").open("wb") as log:
        up = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: _count_computed(commands) == CLOSED_CHUNKS, COMPUTED_WITHIN)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(120)


def _count_computed(commands: Commands) -> int:
    status = commands.run(
        "status", "-o", "json"
    ).stdout  # whatever its exit code, on a busy machine
    return sum(stream["chunks"] for stream in json.loads(status)["derived"]) if status else 0


def _line(number: int) -> str:
    ts = START + timedelta(minutes=number // 4)
    cpu = 95.0 if number % 97 == 0 else 20.0 + number % 11
    row = {"ts": ts.isoformat(), "node": f"n{number % 4}", "cpu": cpu}
    return json.dumps(row) + "\n"


def _tables(root: Path) -> dict[str, Path]:
    """The folders of all tables but those of streams, by name."""
    archive = Path(open_storage(load_settings_from_environment(root / "moirae.yaml")))
    folders = [log.parent for log in archive.rglob("_delta_log")]
    names = {str(folder.relative_to(archive)): folder for folder in folders}
    return {name: path for name, path in names.items() if not name.startswith("streams/")}


def _rows(folder: Path) -> list[str]:
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


def _data_file(folder: Path) -> Path:
    return Path(DeltaTable(folder).file_uris()[0].removeprefix("file://"))


def _flip(folder: Path) -> None:
    path = _data_file(folder)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _lose(folder: Path) -> None:
    _data_file(folder).unlink()


def _truncate_first_commit(folder: Path) -> None:
    path = min((folder / "_delta_log").glob("*.json"))
    path.write_bytes(path.read_bytes()[:40])


def _empty_last_commit(folder: Path) -> None:
    max((folder / "_delta_log").glob("*.json")).write_bytes(b"")


@pytest.mark.parametrize("damage", [_flip, _lose, _truncate_first_commit, _empty_last_commit])
def test_damaged_tables_get_their_rows_back(
    drained: Commands, damage: Callable[[Path], None]
) -> None:
    folders = _tables(drained.root)
    kinds = {name.split("/")[1 if name.startswith("recalls") else 0] for name in folders}
    assert kinds == KINDS
    before = {name: _rows(folder) for name, folder in folders.items()}
    assert all(before.values())
    for folder in folders.values():
        damage(folder)
    doctor = drained.run("doctor")
    assert doctor.returncode == 1
    plan = json.loads(drained.output("doctor", "--repair", "--dry-run", "-o", "json"))
    assert {step["subject"] for step in plan} >= folders.keys() - {
        # Both tables of revisions are written again together.
        name
        for name in folders
        if name.startswith("recalls")
    }
    assert drained.run("doctor").returncode == 1
    drained.output("doctor", "--repair")
    drained.output("doctor")
    drained.output("up", "--drain")
    _compute_derived(drained)
    drained.output("doctor")
    assert _tables(drained.root).keys() == folders.keys()
    after = {name: _rows(folder) for name, folder in folders.items()}
    assert {name: len(rows) for name, rows in after.items()} == {
        name: len(rows) for name, rows in before.items()
    }
    assert after == before
