"""The workspace of `moirae init`: alerts come with context, recalls and similar alerts."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moirae.examples.sample_data import INCIDENTS

NEWEST = max(INCIDENTS, key=lambda incident: incident.start)
BACKUPS = [incident for incident in INCIDENTS if incident.processes[0][0] == "pg_dump"]


@pytest.fixture(scope="module")
def workspace() -> Iterator[Path]:
    """A new workspace, its input read to the end."""
    root = Path(tempfile.mkdtemp(prefix="moirae-first-"))
    root.chmod(0o755)
    directory = root / "mine"
    created = _run("init", str(directory))
    for command in (
        "up --drain",
        "alerts list",
        "similar ID",
        "recalls show ID",
        "alerts resolve ID",
    ):
        assert f"moirae {command}" in created
    _moirae(directory, "up", "--drain")
    yield directory
    shutil.rmtree(root, ignore_errors=True)


def _run(*arguments: str) -> str:
    command = [sys.executable, "-m", "moirae", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def _moirae(directory: Path, *arguments: str) -> str:
    return _run(*arguments, "--workspace", str(directory / "moirae.yaml"))


def _json(directory: Path, *arguments: str) -> Any:
    return json.loads(_moirae(directory, *arguments, "-o", "json"))


def _exported(directory: Path, what: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in _moirae(directory, "export", what, "--format", "jsonl").splitlines()
    ]


@pytest.fixture(scope="module")
def alerts(workspace: Path) -> list[dict[str, Any]]:
    """All alerts, oldest first."""
    return _exported(workspace, "alerts")


@pytest.fixture(scope="module")
def newest(alerts: list[dict[str, Any]]) -> str:
    """The ID of the newest alert."""
    alert_id: str = alerts[-1]["id"]
    return alert_id


def test_each_incident_is_one_alert(alerts: list[dict[str, Any]]) -> None:
    high = [alert for alert in alerts if alert["rule"] == "example/CpuHigh"]
    assert [alert["key"]["host"] for alert in high] == [incident.host for incident in INCIDENTS]
    assert [alert["key"]["host"] for alert in alerts if alert["rule"] == "example/HostSilent"] == [
        "delta"
    ]


def test_history_withdraws_what_is_normal_for_the_host(
    workspace: Path, alerts: list[dict[str, Any]]
) -> None:
    """The first backup is unusual; the others are not."""
    high = [alert for alert in alerts if alert["rule"] == "example/CpuHigh"]
    states = [alert["state"] for alert in high]
    withdrawn = [
        incident for incident, state in zip(INCIDENTS, states, strict=True) if state == "withdrawn"
    ]
    assert withdrawn == BACKUPS[1:]
    assert set(states) == {"resolved", "withdrawn"}
    listed = _moirae(workspace, "alerts", "list")
    assert listed.count("(cork): CPU at") == 1
    assert listed.count("CpuHigh") == len(INCIDENTS) - len(withdrawn)


def test_recall_shows_what_is_normal_for_the_host(workspace: Path, newest: str) -> None:
    norm, similar = _json(workspace, "recalls", "show", newest)
    assert (norm["recall"], similar["recall"]) == ("norm", "similar")
    (row,) = norm["rows"]
    assert row["samples"] > 800
    assert row["mean"] + 3 * row["sd"] < 90
    assert norm["coverage"]["read"] > 1, "history is read in several chunks"


def test_similar_alerts_have_the_same_cause_and_show_its_resolution(
    workspace: Path, newest: str
) -> None:
    (answer,) = _json(workspace, "similar", newest)
    hits = answer["hits"]
    causes = [_is_of_the_same_cause(hit) for hit in hits]
    assert causes == [True, True, True, False, False], "its own cause first, others below"
    assert hits[2]["score"] > 2 * hits[3]["score"]
    same_host = [hit for hit in hits if hit["past"]["key"]["host"] == NEWEST.host]
    assert {_is_of_the_same_cause(hit) for hit in same_host} == {True, False}, (
        "one symptom, several causes"
    )

    # As the user sees it: the ID of a past alert, which `alerts resolve` takes, then what fixed it.
    before = _moirae(workspace, "similar", newest)
    best = before.splitlines()[1].split()[2]
    assert hits[0]["past"]["alert"].startswith(best)
    assert "Limited the crawler" not in before
    _moirae(
        workspace,
        "alerts",
        "resolve",
        best,
        "Limited the crawler to 20 threads.",
        "--tag",
        "limit-crawler",
    )
    after = _moirae(workspace, "similar", newest)
    assert "Limited the crawler to 20 threads. [limit-crawler]" in after


def _is_of_the_same_cause(hit: dict[str, Any]) -> bool:
    process, user = NEWEST.processes[0]
    return {f"process={process}", f"user={user}"} <= dict(hit["shared"]).keys()


def test_surroundings_are_archived_with_the_context(
    workspace: Path, alerts: list[dict[str, Any]]
) -> None:
    contexts = {row["eid"]: row for row in _exported(workspace, "contexts")}
    assert len(contexts[alerts[-1]["eid"]]["surroundings"]["before"]) >= 3


def test_doctor_reports_no_problem(workspace: Path) -> None:
    _moirae(workspace, "doctor")
    accounting = _json(workspace, "status")["accounting"]
    assert accounting["read"] == accounting["archived"] > 1000


def test_example_has_no_key_without_effect(workspace: Path) -> None:
    for file in (workspace / "moirae.yaml", workspace / "rules" / "example.yaml"):
        assert not re.findall(r"(?m)^[ #-]*(receivers|routes|interval|then):", file.read_text())
