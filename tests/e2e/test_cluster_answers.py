"""A workspace on a Spark cluster gives what it gives on one machine, in one process."""

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from moirae.config.settings import load_settings_from_environment
from moirae.runtime import database
from tests import cluster
from tests.cluster import SECRET, SECRET_VARIABLE
from tests.cluster_scenario import (
    DATA,
    RULES,
    WORKSPACE,
    collect_outcome,
    put_generated_input,
    put_real_input,
)
from tests.commands import Commands
from tests.store import put_object
from tests.workspaces import write_workspace

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        cluster.find_isolation() is None,
        reason="no namespaces: needs unshare, and the right to mount",
    ),
]

_SHORT_WORKSPACE = """
home: home
archive: {bucket}/archive
landing: {bucket}/landing
engine: spark
streams:
  s:
    columns: {{ts: timestamp, host: string, n: bigint}}
    time: ts
    id: [n]
    key: [host]
    source: {{files: "{bucket}/in/*.jsonl"}}
chunks: {{rows: 500, age: 1d}}
rules: [rules.yaml]
{spark}
"""
# The first is evaluated where rows are written, the second by a statement of Spark.
_SHORT_RULES = """
groups:
- name: short
  rules:
  - {alert: Tenth, expr: "SELECT host, n, ts FROM s WHERE n % 10 = 0", id: [n], keep_firing_for: 1s}
  - alert: Digits
    expr: SELECT host, n, ts, size(regexp_extract_all(host, '([0-9])', 1)) AS digits FROM s WHERE n % 100 = 7
    id: [n]
    keep_firing_for: 1s
"""
_START = datetime(2026, 1, 1, tzinfo=UTC)
_FILES, _FILE_ROWS = 4, 200


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)


def test_rows_and_events_are_exact(bucket: str, public_folder: Path) -> None:
    """A short form, with one executor and without recalls."""
    rows = [
        {"ts": (_START + timedelta(seconds=n)).isoformat(), "host": f"h{n % 3}", "n": n}
        for n in range(_FILES * _FILE_ROWS)
    ]
    for number in range(_FILES):
        # Each file repeats the last rows of the one before.
        lines = rows[max(0, number * _FILE_ROWS - 50) : (number + 1) * _FILE_ROWS]
        content = "".join(json.dumps(line) + "\n" for line in lines)
        put_object(f"{bucket}/in/{number}.jsonl", content.encode())
    with cluster.cluster(public_folder / "short-daemons", os.environ, 1) as running:
        spark = running.workspace_settings()
        root = _write(
            public_folder / "short", _SHORT_WORKSPACE, _SHORT_RULES, bucket=bucket, spark=spark
        )
        with Commands(root) as commands:
            drained = commands.run("up", "--drain")
            assert drained.returncode == 0, drained.stderr[-5000:] + running.describe()
            events = commands.exported("events")
            alerts = commands.exported("alerts")
            accounting = commands.json("status")["accounting"]
        assert running.worker_folders() == [[]]
    table = DeltaTable(f"{bucket}/archive/streams/s", storage_options={"allow_http": "true"})
    archived = table.to_pyarrow_table()
    assert sorted(archived["n"].to_pylist()) == [row["n"] for row in rows]
    assert len(set(archived["chunk"].to_pylist())) > 1
    duplicates = 50 * (_FILES - 1)
    assert accounting["archived"] == len(rows)
    assert accounting["duplicates"] == duplicates
    expected = [
        (rule, row["n"])
        for rule, divisor, rest in (("short/Digits", 100, 7), ("short/Tenth", 10, 0))
        for row in rows
        if row["n"] % divisor == rest
    ]
    assert sorted((event["rule"], event["attributes"]["n"]) for event in events) == expected
    assert len(alerts) == len(expected)


def _write(root: Path, settings: str, rules: str, **values: Any) -> Path:
    root.mkdir()
    write_workspace(root, settings.format(**values))
    (root / "rules.yaml").write_text(rules)
    return root


def _drain(root: Path, posted: Sequence[Path], archive: str) -> dict[str, Any]:
    """What a workspace has after a drain."""
    with Commands(root) as commands:
        for file in posted:
            commands.output("ingest", "b", str(file))
        began = time.monotonic()
        drained = commands.run("up", "--drain")
        print(f"{root.name}: drained in {time.monotonic() - began:.0f} s", flush=True)
        assert drained.returncode == 0, drained.stderr[-5000:]
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "tests") as connection:
            return collect_outcome(commands, connection, archive)


def _compare(bucket: str, folder: Path, posted: Sequence[Path], chunk_rows: int) -> dict[str, Any]:
    """Drain the same input on one machine and on a cluster. Returns what both have."""
    common = {"bucket": bucket, "chunk_rows": chunk_rows}
    local = {"archive": f"{bucket}/local", "landing": f"{bucket}/local-landing", "spark": ""}
    root = _write(folder / "local", WORKSPACE, RULES, engine="local", **local, **common)
    expected = _drain(root, posted, local["archive"])
    with cluster.cluster(folder / "daemons", os.environ) as running:
        remote = {
            "archive": f"{bucket}/cluster",
            "landing": f"{bucket}/cluster-landing",
            "spark": running.workspace_settings(),
        }
        root = _write(folder / "cluster", WORKSPACE, RULES, engine="spark", **remote, **common)
        actual = _drain(root, posted, remote["archive"])
        assert running.worker_folders() == [[], []]
    for part, value in expected.items():
        assert actual[part] == value, part
        assert value, f"{part}: nothing to compare"
    print({part: len(value) for part, value in expected.items()}, flush=True)
    return expected


@pytest.mark.slow
def test_recall_process_without_executors_answers_what_needs_none(
    bucket: str, public_folder: Path
) -> None:
    """A master without workers; the live process needs no executors here."""
    lines = [{"ts": (_START + timedelta(seconds=n)).isoformat(), "n": n} for n in range(100)]
    content = "".join(json.dumps({**line, "host": "h"}) + "\n" for line in lines)
    put_object(f"{bucket}/in/rows.jsonl", content.encode())
    rules = """
groups:
- name: g
  rules:
  - alert: Tenth
    expr: SELECT n, ts FROM s WHERE n % 10 = 0
    id: [n]
    keep_firing_for: 1s
    recall: {earlier: {sql: "SELECT count(*) AS n, max(h.n) AS last FROM s h"}}
"""
    settings = _SHORT_WORKSPACE.replace("engine: spark", "engine: local\nrecall: {{engine: spark}}")
    with cluster.cluster(public_folder / "master", os.environ, 0) as running:
        spark = running.workspace_settings()
        root = _write(public_folder / "away", settings, rules, bucket=bucket, spark=spark)
        with Commands(root) as commands:
            drained = commands.run("up", "--drain")
            assert drained.returncode == 0, drained.stderr[-5000:] + running.describe()
            recalls = commands.exported("recalls")
    answers = sorted(recall["answer"][0]["n"] for recall in recalls)
    assert answers == list(range(0, 100, 10))


@pytest.mark.slow
def test_generated_input_gives_the_same_as_on_one_machine(
    bucket: str, public_folder: Path, tmp_path: Path
) -> None:
    posted = put_generated_input(bucket, tmp_path / "files", 600, seed=3)
    outcome = _compare(bucket, public_folder, posted, 400)
    assert any("_late', True" in row for row in outcome["rows of a"])


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no data in {DATA}")
def test_real_input_gives_the_same_as_on_one_machine(
    bucket: str, public_folder: Path, tmp_path: Path
) -> None:
    (public_folder / "real").mkdir()
    posted = put_real_input(bucket, tmp_path / "files", 10_000, seed=5)
    _compare(bucket, public_folder / "real", posted, 4000)
