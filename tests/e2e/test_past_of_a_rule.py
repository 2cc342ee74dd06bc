"""A rule that is added to a history has its past: of recent chunks by itself, of old ones when a
recall comes by.

Data through the real processes, against an independent computation with DuckDB: some hours that
are generated, some hours of PlanetLab, its five days, these for ten times as many machines, and
four months of Blue Gene/L for ten times as many. Real data lies beside the checkout, or where
MOIRAE_DATA says; without it its cases are skipped.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.late_rule import CASES, DATA, HistoryWorkspace
from tests.parent import end_with_parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(6000),
]


@pytest.fixture(params=CASES)
def workspace(request: pytest.FixtureRequest) -> Iterator[HistoryWorkspace]:
    if CASES[request.param].files is not None and not DATA.is_dir():
        pytest.skip(f"no data at {DATA}; MOIRAE_DATA names its folder")
    root = Path(tempfile.mkdtemp(prefix="moirae-past-"))
    root.chmod(0o755)
    yield HistoryWorkspace(root, CASES[request.param])
    shutil.rmtree(root, ignore_errors=True)


def test_rule_added_later_has_events_in_history(workspace: HistoryWorkspace) -> None:
    case, began = workspace.case, time.monotonic()
    workspace.land("", case.split)
    workspace.moirae("up", "--drain")
    rows = json.loads(workspace.moirae("status", "-o", "json"))["accounting"]["archived"]
    print(f"{rows:,} rows archived in {time.monotonic() - began:.0f} s", flush=True)
    workspace.add()
    command = [
        sys.executable,
        "-m",
        "moirae",
        "up",
        "--workspace",
        str(workspace.root / "moirae.yaml"),
    ]
    with (workspace.root / "log").open("w") as log:
        up = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)
    try:
        recent = workspace.until("recent chunks have views", workspace.materialised)
        assert recent["chunks"]["recent"]["chunks"] == 3
        assert recent["chunks"]["old"]["found"] == 0 < recent["chunks"]["old"]["chunks"], (
            "no recall has been requested"
        )
        # What lies close behind the end of a drained input is late.
        workspace.land(case.later, case.end)
        workspace.until("old chunks have views, as recalls came by", workspace.have_recalls_ended)
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(60)
    past = workspace.past()
    print(past, flush=True)
    assert not any(chunks["failed"] for chunks in past["chunks"].values()), past
    late = datetime.fromisoformat(case.late)
    added = [event for event in workspace.exported("events") if event["rule"] == "g/Added"]
    event_keys = sorted(
        (*(event["key"][name] for name in case.keys), _time(event["ts"])) for event in added
    )
    assert [event for event in event_keys if event[-1] < late] == workspace.events()
    corpus = sorted(_time(context["ts"]) for context in workspace.exported("contexts"))
    assert [ts for ts in corpus if ts < late] == workspace.first_event_times()
    hits = {hit["event"] for hit in workspace.exported("similar")}
    past_events = [
        e
        for e in json.loads(workspace.moirae("events", "list", "--limit", "100000", "-o", "json"))
        if e["past"]
    ]
    hit_events = [event["eid"] for event in past_events if event["eid"] in hits]
    assert hit_events
    shown = [
        json.loads(workspace.moirae("events", "show", eid, "-o", "json")) for eid in hit_events[:20]
    ]
    assert all(event["past"] for event in shown)
    assert any(event["contexts"]["beside"] for event in shown)
    listed = json.loads(workspace.moirae("alerts", "list", "--limit", "10000", "-o", "json"))
    assert not any(alert["past"] for alert in listed)
    workspace.moirae("doctor")
    print(
        f"{len(event_keys):,} events, {len(hit_events)} past ones among hits; "
        f"all in {time.monotonic() - began:.0f} s"
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
