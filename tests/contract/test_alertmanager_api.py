"""Alertmanager's API: its own client `amtool`, and the fields that other clients read."""

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.alertmanager import find_program
from tests.notified_alerts import Alerts, clear
from tests.served import Served, serve_here

pytestmark = pytest.mark.services
_AMTOOL = find_program("amtool")
_needs_amtool = pytest.mark.skipif(_AMTOOL is None, reason="needs amtool: run `make alertmanager`")
_WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
receivers:
  ops: {webhook: "http://127.0.0.1:9/secret-path"}
  chat: {webhook: "http://127.0.0.1:9/"}
routes:
- {receiver: ops, group_by: [alertname], matchers: ['severity=~"page|ticket"'], group_wait: 10s, continue: true}
- {receiver: chat, match: {team: web}}
inhibit_rules:
- {source_matchers: ['alertname=Site'], target_matchers: ['alertname=Disk'], equal: [site]}
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve_here(_WORKSPACE, "groups: []\n") as running:
        clear(running.connection)
        alerts = Alerts(running.connection)
        alerts.fire("Disk", {"host": "a"}, severity="page", team="web")
        alerts.fire("Disk", {"host": "b"}, severity="ticket", site="rome")
        alerts.fire("Site", {"site": "rome"}, severity="page")
        yield running


def _amtool(served: Served, tmp_path: Path, *arguments: str, role: str = "operator") -> str:
    config = tmp_path / "http.yml"
    config.write_text(f"authorization: {{credentials: {served.tokens[role]}}}\n")
    assert _AMTOOL is not None
    done = subprocess.run(
        [_AMTOOL, "--alertmanager.url", served.url, "--http.config.file", str(config), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@_needs_amtool
def test_amtool_lists_alerts_with_what_holds_them_back(served: Served, tmp_path: Path) -> None:
    alerts = json.loads(_amtool(served, tmp_path, "alert", "query", "-o", "json"))
    # Without an option, amtool asks for neither silenced nor inhibited ones.
    assert sorted((a["labels"]["alertname"], a["status"]["state"]) for a in alerts) == [
        ("Disk", "active"),
        ("Site", "active"),
    ]
    inhibited = _amtool(served, tmp_path, "alert", "query", "--inhibited", "-o", "json")
    by_host = {a["labels"].get("host"): a for a in json.loads(inhibited)}
    (source,) = by_host["b"]["status"]["inhibitedBy"]
    assert by_host.keys() == {"b"}
    assert source == next(a for a in alerts if "site" in a["labels"])["fingerprint"]
    selected = _amtool(served, tmp_path, "alert", "query", "host=~a|z", "-o", "json")
    assert [a["labels"]["host"] for a in json.loads(selected)] == ["a"]


@_needs_amtool
def test_amtool_adds_updates_queries_and_expires_silences(served: Served, tmp_path: Path) -> None:
    number = _amtool(
        served, tmp_path, "silence", "add", "alertname=Disk", "host!~x.*", "-c", "why", "-d", "1h"
    ).strip()
    (silence,) = json.loads(_amtool(served, tmp_path, "silence", "query", "-o", "json"))
    assert silence["id"] == number
    assert silence["createdBy"].endswith("(token operator)")
    assert [(m["name"], m["isRegex"], m["isEqual"]) for m in silence["matchers"]] == [
        ("alertname", False, True),
        ("host", True, False),
    ]
    silenced = _amtool(served, tmp_path, "alert", "query", "--silenced", "-o", "json")
    held_back = [a for a in json.loads(silenced) if a["status"]["silencedBy"] == [number]]
    assert {a["labels"]["host"] for a in held_back} >= {"a"}
    _amtool(served, tmp_path, "silence", "update", number, "-d", "2h", "-c", "longer")
    (updated,) = json.loads(_amtool(served, tmp_path, "silence", "query", "-o", "json"))
    assert (updated["comment"], updated["endsAt"] > silence["endsAt"]) == ("longer", True)
    _amtool(served, tmp_path, "silence", "expire", updated["id"])
    assert json.loads(_amtool(served, tmp_path, "silence", "query", "-o", "json")) == []
    expired = _amtool(
        served, tmp_path, "silence", "query", "--expired", "--within", "1h", "-o", "json"
    )
    assert number in [s["id"] for s in json.loads(expired)]
    audited = served.connection.execute(
        b"SELECT count(*) FROM audit WHERE operation LIKE 'alertmanager.%'"
    ).fetchone()
    assert audited == (3,)


@_needs_amtool
def test_amtool_shows_routes_without_secrets(served: Served, tmp_path: Path) -> None:
    shown = _amtool(served, tmp_path, "config", "show", role="viewer")
    assert "secret-path" not in shown
    tree = _amtool(served, tmp_path, "config", "routes", "show", role="viewer")
    assert 'severity=~"page|ticket"' in tree
    tested = _amtool(
        served, tmp_path, "config", "routes", "test", "severity=page", "team=web", role="viewer"
    )
    assert tested.strip() == "ops,chat"


def _ask(served: Served, method: str, path: str, **options: Any) -> Any:
    return served.ask(method, f"/api/v2/{path}", **options)


def test_groups_and_receivers_are_those_of_the_routes(served: Served) -> None:
    groups = _ask(served, "GET", "alerts/groups", role="viewer").json()
    sizes = {(g["receiver"]["name"], str(g["labels"])): len(g["alerts"]) for g in groups}
    assert sizes == {
        ("chat", "{}"): 1,
        ("ops", "{'alertname': 'Disk'}"): 2,
        ("ops", "{'alertname': 'Site'}"): 1,
    }
    chat = _ask(served, "GET", "alerts/groups?receiver=ch.*", role="viewer").json()
    assert [g["receiver"]["name"] for g in chat] == ["chat"]
    assert _ask(served, "GET", "receivers").json() == [{"name": "chat"}, {"name": "ops"}]


def test_silence_needs_an_operator_and_a_valid_body(served: Served) -> None:
    now = datetime.now(UTC)
    matcher = {"name": "host", "value": "a", "isRegex": False}
    body = {
        "matchers": [matcher],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "me",
        "comment": "c",
    }
    assert _ask(served, "POST", "silences", json=body, role=None).status_code == 401
    assert _ask(served, "POST", "silences", json=body, role="viewer").status_code == 403
    for wrong in (
        {"matchers": [{**matcher, "value": "(", "isRegex": True}]},
        {"matchers": [{**matcher, "value": ""}]},
        {"endsAt": (now - timedelta(hours=1)).isoformat()},
        {"comment": ""},
    ):
        answer = _ask(served, "POST", "silences", json={**body, **wrong}, role="operator")
        assert answer.status_code in (400, 422), answer.text
    unknown = "00000000-0000-0000-0000-000000000001"
    assert _ask(served, "GET", f"silence/{unknown}").status_code == 404
    assert _ask(served, "DELETE", f"silence/{unknown}").status_code == 404
    added = _ask(served, "POST", "silences", json=body, role="operator").json()["silenceID"]
    moved = {**body, "id": added, "matchers": [{**matcher, "value": "b"}]}
    other = _ask(served, "POST", "silences", json=moved, role="operator").json()["silenceID"]
    assert other != added
    assert _ask(served, "GET", f"silence/{added}").json()["status"]["state"] == "expired"
    assert _ask(served, "DELETE", f"silence/{other}", role="operator").status_code == 200


def test_karma_finds_the_fields_that_it_decodes(served: Served) -> None:
    """What Karma 0.133 asks for, and the types that its decoder requires."""
    assert served.ask("GET", "/metrics", "viewer").status_code == 200
    for group in _ask(served, "GET", "alerts/groups", role="viewer").json():
        assert isinstance(group["receiver"]["name"], str)
        assert all(isinstance(value, str) for value in group["labels"].values())
        for alert in group["alerts"]:
            assert datetime.fromisoformat(alert["startsAt"]).tzinfo is not None
            assert {type(alert[name]) for name in ("fingerprint", "generatorURL")} == {str}
            texts = [*alert["labels"].values(), *alert["annotations"].values()]
            assert all(isinstance(value, str) for value in texts)
            assert alert["status"]["state"] in ("active", "suppressed", "unprocessed")
            for name in ("inhibitedBy", "silencedBy"):
                assert all(isinstance(value, str) for value in alert["status"][name])
    # As its form posts a silence, with milliseconds and groups of values.
    now = datetime.now(UTC)
    body = {
        "matchers": [{"name": "host", "value": "(a|b)", "isRegex": True, "isEqual": True}],
        "startsAt": now.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "endsAt": (now + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "createdBy": "me@example.org",
        "comment": "upgrade",
    }
    added = _ask(served, "POST", "silences", json=body, role="operator").json()["silenceID"]
    silences = {silence["id"]: silence for silence in _ask(served, "GET", "silences").json()}
    assert silences[added]["matchers"] == body["matchers"]
    for name in ("startsAt", "endsAt"):
        assert datetime.fromisoformat(silences[added][name]).tzinfo is not None
    assert _ask(served, "DELETE", f"silence/{added}", role="operator").status_code == 200
