"""Drains of a workspace between which it changes: a column's type, the folder that it is in, and a
file that breaks its reader.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.commands import Commands
from tests.faults.harness import workspace
from tests.landing import put_file

# Each drain starts Spark.
pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(1800)]

WORKSPACE = """
home: .moirae
engine: {engine}
spark: {{large_batch: 1}}
streams:
  m:
    columns: {{ts: timestamp, host: string, v: bigint}}
    time: ts
    source: {{files: landing/m/*.jsonl}}
  other:
    columns: {{ts: timestamp, host: string}}
    time: ts
    source: {{files: landing/other/*.jsonl}}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: g
  rules:
  - {alert: High, expr: "SELECT host, ts, v FROM m WHERE v > 95", key: [host]}
"""


@pytest.fixture(params=["local", "spark"])
def root(request: pytest.FixtureRequest) -> Iterator[Path]:
    with workspace(WORKSPACE.format(engine=request.param), RULES) as root:
        for stream in ("m", "other"):
            (root / "landing" / stream).mkdir(parents=True)
        yield root


def _put(root: Path, name: str, *fields: str) -> None:
    """A file of rows. `fields`: of each, without its time."""
    rows = [
        f'{{"ts": "2026-01-01T10:00:{second:02d}Z", {text}}}\n'
        for second, text in enumerate(fields)
    ]
    put_file(root / "landing" / name, "".join(rows))


def _declare(root: Path, old: str, new: str) -> None:
    file = root / "moirae.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def _values(commands: Commands) -> list[float]:
    """Of column v: delta-rs and an ad-hoc query read the same ones."""
    table = DeltaTable(commands.root / ".moirae" / "archive" / "streams" / "m")
    values = sorted(table.to_pyarrow_table()["v"].to_pylist())
    rows = commands.json("query", "SELECT host, v FROM m")
    assert sorted(row["v"] for row in rows["rows"]) == values
    return values


def test_workspace_goes_on_after_each_change(root: Path) -> None:
    with Commands(root) as commands:
        _put(root, "m/1.jsonl", '"host": "a", "v": 95', '"host": "b", "v": 95.5')
        commands.output("up", "--drain")
        assert _values(commands) == [95]
        (letter,) = commands.json("dead-letters", "list")
        assert letter["detail"] == "column v: 95.5 is not an integer"

        # The type is corrected, and the record read again.
        _declare(root, "v: bigint", "v: double")
        _put(root, "m/2.jsonl", '"host": "a", "v": 95', '"host": "c", "v": 97.5')
        commands.output("dead-letters", "retry", "--all")
        commands.output("up", "--drain")
        assert _values(commands) == [95.0, 95.5, 97.5]
        assert commands.json("dead-letters", "list") == []
        commands.output("doctor")

        # It cannot be narrowed: nothing starts, nothing changes.
        _declare(root, "v: double", "v: bigint")
        for command in (("rules", "check"), ("up", "--drain")):
            refused = commands.run(*command)
            assert refused.returncode == 1
            message = "column v was archived as double and cannot become bigint"
            assert f"moirae.yaml:7:47: streams.m.columns.v: {message}" in refused.stderr
            assert "Traceback" not in refused.stderr
        _declare(root, "v: bigint", "v: double")

        # A link whose target does not exist breaks the reader of its file.
        (root / "landing" / "m" / "3.jsonl").symlink_to("/nowhere/3.jsonl")
        _put(root, "m/4.jsonl", '"host": "d", "v": 1')
        _put(root, "other/1.jsonl", '"host": "d"')
        drained = commands.run("up", "--drain")
        assert drained.returncode == 1
        assert "set aside after 3 tries: file landing/m/3.jsonl of stream m" in drained.stderr
        assert _values(commands) == [1.0, 95.0, 95.5, 97.5]
        assert len(commands.json("query", "SELECT host FROM other")["rows"]) == 1
        (failed,) = commands.json("set-aside", "list")
        assert failed["reason"].endswith("a symbolic link whose target does not exist")

    # The whole folder is moved, and the target of the link is there.
    moved = root.with_name(f"{root.name}-moved")
    shutil.move(root, moved)
    try:
        (moved / "landing" / "m" / "3.jsonl").unlink()
        _put(moved, "m/3.jsonl", '"host": "e", "v": 2')
        _put(moved, "m/5.jsonl", '"host": "f", "v": 3')
        os.utime(moved / "landing" / "m" / "1.jsonl")
        with Commands(moved) as commands:
            commands.output("up", "--drain")
            assert _values(commands) == [1.0, 2.0, 3.0, 95.0, 95.5, 97.5]
            commands.output("doctor")
    finally:
        shutil.rmtree(moved, ignore_errors=True)
