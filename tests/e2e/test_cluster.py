"""A Spark cluster whose workers see no file of the driver, with a bucket and a PostgreSQL server."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from archiver.spark import MISMATCH, describe_environment
from tests import cluster
from tests.cluster import SECRET, SECRET_VARIABLE
from tests.workspaces import write_workspace

_NEEDS_NAMESPACES = pytest.mark.skipif(
    cluster.find_isolation() is None, reason="no namespaces: needs unshare, and the right to mount"
)
_WORKSPACE = """
home: .moirae
archive: {bucket}/archive
landing: {bucket}/landing
engine: spark
streams:
  posted: {{columns: {{ts: timestamp, n: bigint}}, time: ts, id: [n], source: {{http: true}}}}
rules: []
{spark}
"""
_REFUSED_TASK = """
import sys
from pathlib import Path
from archiver.spark import open_session
from recall.statements import WORKER_DAEMON
conf = {"spark.python.daemon.module": WORKER_DAEMON}
with open_session("tests", Path(sys.argv[1]), "local[1]", conf) as spark:
    spark.sparkContext.parallelize([1], 1).map(str).collect()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@_NEEDS_NAMESPACES
def test_check_finds_no_problem_on_machines_of_their_own(
    bucket: str, public_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
    with cluster.cluster(public_folder / "cluster", os.environ) as running:
        spark = running.workspace_settings(live=2)
        file = write_workspace(public_folder, _WORKSPACE.format(bucket=bucket, spark=spark))
        command = [sys.executable, "-m", "moirae", "cluster", "check", "-o", "json"]
        done = subprocess.run(
            [*command, "--workspace", str(file)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert running.worker_folders() == [[], []]
        assert done.returncode == 0, done.stdout + done.stderr[-3000:] + running.describe()
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)}
    assert not any(finding["problems"] for finding in findings.values())
    assert findings["executors"]["summary"] == "2 with 2 cores"
    assert findings["put if absent"]["summary"].startswith("one of 3 processes")


@pytest.mark.slow
def test_worker_with_other_software_refuses_tasks(tmp_path: Path) -> None:
    driver: Mapping[str, str] = {**describe_environment(), "pyarrow": "0.1"}
    done = subprocess.run(
        [sys.executable, "-c", _REFUSED_TASK, str(tmp_path)],
        env={**os.environ, "MOIRAE_DRIVER_ENVIRONMENT": json.dumps(driver)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode != 0
    assert MISMATCH in done.stderr
    assert f"pyarrow {describe_environment()['pyarrow']} instead of 0.1" in done.stderr
