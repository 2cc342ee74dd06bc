"""The workspace of `moirae init`: alerts come with context, recalls and similar alerts."""

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
from tests.commands import Commands

NEWEST = max(INCIDENTS, key=lambda incident: incident.start)
BACKUPS = [incident for incident in INCIDENTS if incident.processes[0][0] == "pg_dump"]


@pytest.fixture(scope="module")
def workspace() -> Iterator[Commands]:
    """A new workspace, its input read to the end."""
    root = Path(tempfile.mkdtemp(prefix="moirae-first-"))
    root.chmod(0o755)
    directory = root / "mine"
    command = [sys.executable, "-m", "moirae", "init", str(directory)]
    created = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    for example in (
        "up --drain",
        "alerts list",
        "similar ID",
        "recalls show ID",
        "alerts resolve ID",
    ):
        assert f"moirae {example}" in created.stdout
    with Commands(directory) as commands:
        commands.output("up", "--drain")
        yield commands
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def alerts(workspace: Commands) -> list[dict[str, Any]]:
    """All alerts, oldest first."""
    return workspace.exported("alerts")


@pytest.fixture(scope="module")
def newest(alerts: list[dict[str, Any]]) -> str:
    """The ID of the newest alert."""
    alert_id: str = alerts[-1]["id"]
    return alert_id


def test_status_shows_no_unread_input_after_a_drain(workspace: Commands) -> None:
    assert workspace.json("status")["unread_input"] == []


def test_each_incident_is_one_alert(alerts: list[dict[str, Any]]) -> None:
    high = [alert for alert in alerts if alert["rule"] == "example/CpuHigh"]
    assert [alert["key"]["host"] for alert in high] == [incident.host for incident in INCIDENTS]
    assert [alert["key"]["host"] for alert in alerts if alert["rule"] == "example/HostSilent"] == [
        "delta"
    ]


def test_history_withdraws_what_is_normal_for_the_host(
    workspace: Commands, alerts: list[dict[str, Any]]
) -> None:
    """The first backup is unusual; the others are not."""
    high = [alert for alert in alerts if alert["rule"] == "example/CpuHigh"]
    states = [alert["state"] for alert in high]
    withdrawn = [
        incident for incident, state in zip(INCIDENTS, states, strict=True) if state == "withdrawn"
    ]
    assert withdrawn == BACKUPS[1:]
    assert set(states) == {"resolved", "withdrawn"}
    listed = workspace.output("alerts", "list")
    assert listed.count("(cork): CPU at") == 1
    assert listed.count("CpuHigh") == len(INCIDENTS) - len(withdrawn)


def test_recall_shows_what_is_normal_for_the_host(workspace: Commands, newest: str) -> None:
    norm, similar = workspace.json("recalls", "show", newest)
    assert (norm["recall"], similar["recall"]) == ("norm", "similar")
    (row,) = norm["rows"]
    assert row["samples"] > 800
    assert row["mean"] + 3 * row["sd"] < 90
    assert norm["coverage"]["read"] > 1, "history is read in several chunks"


def test_similar_alerts_have_the_same_cause_and_show_its_resolution(
    workspace: Commands, newest: str
) -> None:
    (answer,) = workspace.json("similar", newest)
    hits = answer["hits"]
    causes = [_is_of_the_same_cause(hit) for hit in hits]
    assert causes == [True, True, True, False, False], "its own cause first, others below"
    assert hits[2]["score"] > 1.5 * hits[3]["score"]
    same_host = [hit for hit in hits if hit["past"]["key"]["host"] == NEWEST.host]
    assert {_is_of_the_same_cause(hit) for hit in same_host} == {True, False}, (
        "one symptom, several causes"
    )

    # As the user sees it: the ID of a past alert, which `alerts resolve` takes, then what fixed it.
    before = workspace.output("similar", newest)
    best = next(line for line in before.splitlines() if line.startswith("   1. ")).split()[2]
    assert hits[0]["past"]["alert"].startswith(best)
    assert "Limited the crawler" not in before
    workspace.output(
        "alerts",
        "resolve",
        best,
        "Limited the crawler to 20 threads.",
        "--tag",
        "limit-crawler",
    )
    after = workspace.output("similar", newest)
    assert "Limited the crawler to 20 threads. [limit-crawler]" in after


def _is_of_the_same_cause(hit: dict[str, Any]) -> bool:
    process, user = NEWEST.processes[0]
    return {f"process={process}", f"user={user}"} <= dict(hit["shared"]).keys()


def test_surroundings_are_archived_with_the_context(
    workspace: Commands, alerts: list[dict[str, Any]]
) -> None:
    contexts = {row["eid"]: row for row in workspace.exported("contexts")}
    assert len(contexts[alerts[-1]["eid"]]["surroundings"]["before"]) >= 3


def test_doctor_reports_no_problem(workspace: Commands) -> None:
    workspace.output("doctor")
    accounting = workspace.json("status")["accounting"]
    assert accounting["read"] == accounting["archived"] > 1000


def test_example_has_no_key_without_effect(workspace: Commands) -> None:
    for name in ("moirae.yaml", "rules/example.yaml"):
        text = (workspace.root / name).read_text()
        assert not re.findall(r"(?m)^[ #-]*(receivers|routes|interval|then):", text)
