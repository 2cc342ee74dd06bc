"""From a stored alert to the receiver: routes, groups, outbox, deliveries, restarts."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

import sql
from moirae.cli import app
from moirae.config import Settings
from moirae.incidents import GroupingPolicy, IncidentEngine
from moirae.incidents.changes import NearbyChanges
from moirae.inspect.notifications import (
    collect_notification_status,
    find_notification_problems,
)
from moirae.notify.messages import refined
from moirae.notify.process import failing_receivers, loop, run
from moirae.notify.process.store import NotifyStore
from moirae.runtime import Role, connect_database
from sql.alerts import AlertNoteGateway, NewAlertNote
from sql.workspace import WorkspaceGateway
from tests.mailbox import Mailbox, serving_mail
from tests.notified_alerts import Alerts, clear, load_workspace, notifying
from tests.receivers import FakeReceiver, fake_receiver
from tests.waiting import wait_until

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def _connection(public_folder: Path) -> Iterator[sql.Connection]:
    settings = load_workspace(public_folder, "streams: {}\n")
    with connect_database(settings, "tests") as opened:
        yield opened


@pytest.fixture
def connection(_connection: sql.Connection) -> sql.Connection:
    clear(_connection)
    return _connection


@pytest.fixture
def alerts(connection: sql.Connection) -> Alerts:
    return Alerts(connection)


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with fake_receiver() as opened:
        yield opened


@pytest.fixture
def settings(public_folder: Path, receiver: FakeReceiver) -> Settings:
    return load_workspace(public_folder, make_workspace(receiver))


def make_workspace(receiver: FakeReceiver, route: str = "", more: str = "") -> str:
    return (
        f"receivers: {{ops: {{webhook: '{receiver.url}'}}}}\n"
        "routes: [{receiver: ops, group_by: [alertname], group_wait: 0s, group_interval: 1s, "
        f"repeat_interval: 1h{route}}}]\n{more}"
    )


def wait_for(receiver: FakeReceiver, messages: int) -> None:
    wait_until(lambda: len(receiver.requests) >= messages, seconds=15)


def test_alert_is_sent_when_it_fires_and_when_it_ends(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver
) -> None:
    with notifying(settings):
        alerts.fire("Disk", {"host": "a"}, severity="page")
        wait_for(receiver, 1)
        alerts.resolve("Disk", {"host": "a"})
        wait_for(receiver, 2)
    first, second = (request.json for request in receiver.requests)
    assert first["alerts"][0]["labels"] == {"alertname": "Disk", "host": "a", "severity": "page"}
    assert first["groupKey"] == '{}/{}:{alertname="Disk"}'
    assert first["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
    assert (first["status"], second["status"]) == ("firing", "resolved")
    assert second["alerts"][0]["moirae"]["reason"] == "ended"


def test_messages_are_sent_while_alerts_change_without_pause(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_changed = NotifyStore.list_changed
    hosts = count()

    def change_and_list(*arguments: Any) -> Any:
        alerts.fire("Disk", {"host": str(next(hosts))})
        return list_changed(*arguments)

    monkeypatch.setattr(NotifyStore, "list_changed", change_and_list)
    with notifying(settings):
        wait_for(receiver, 1)


def test_alert_is_sent_once_across_restarts(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver
) -> None:
    with notifying(settings):
        alerts.fire("Disk", {"host": "a"})
        wait_for(receiver, 1)
        time.sleep(0.2)
    alerts.fire("Net")
    with notifying(settings):
        wait_for(receiver, 2)
        time.sleep(1.2)
        alerts.resolve("Disk", {"host": "a"})
        wait_for(receiver, 3)
    assert receiver.alert_names() == [["Disk firing"], ["Net firing"], ["Disk resolved"]]


def test_message_is_sent_again_until_the_receiver_takes_it(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver
) -> None:
    answers = iter([(500, {}, b"no"), (429, {"Retry-After": "1"}, b"slow down")])
    receiver.answer = lambda _: next(answers, (200, {}, b""))
    with notifying(settings):
        alerts.fire("Disk")
        wait_for(receiver, 3)
        time.sleep(0.3)
    keys = {request.headers["Idempotency-Key"] for request in receiver.requests}
    assert len(keys) == 1
    times = [request.at for request in receiver.requests]
    assert times[2] - times[1] >= 1.0


def test_withdrawn_alert_is_resolved_with_its_reason(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver
) -> None:
    with notifying(settings):
        alerts.fire("Disk")
        wait_for(receiver, 1)
        alerts.withdraw("Disk")
        wait_for(receiver, 2)
    (alert,) = receiver.requests[1].json["alerts"]
    assert (alert["status"], alert["moirae"]["reason"]) == ("resolved", "withdrawn")


def test_alert_of_a_drain_is_not_sent(
    settings: Settings, public_folder: Path, connection: sql.Connection, receiver: FakeReceiver
) -> None:
    with notifying(settings):
        with connect_database(settings, "tests", "-c moirae.notify=off") as drain:
            Alerts(drain).fire("Drained")
        Alerts(connection).fire("Live")
        wait_for(receiver, 1)
        time.sleep(0.3)
    assert receiver.alert_names() == [["Live firing"]]


def test_messages_beyond_the_limit_are_counted_in_a_summary(
    public_folder: Path, connection: sql.Connection, receiver: FakeReceiver
) -> None:
    text = make_workspace(receiver, more="limits: {notifications: 5}\n")
    with notifying(load_workspace(public_folder, text)):
        with connection.transaction():
            for number in range(20):
                severity = "page" if number > 17 else "info"
                Alerts(connection).fire(f"Disk{number}", severity=severity)
        wait_until(lambda: len(receiver.requests) >= 7, seconds=15)
        time.sleep(0.2)
    names = [name for message in receiver.alert_names() for name in message]
    assert {"Disk18 firing", "Disk19 firing"} <= set(names)
    summaries = [
        request.json["alerts"][0]
        for request in receiver.requests
        if request.json["alerts"][0]["labels"]["alertname"] == "NotificationSummary"
    ]
    counted = sum(summary["moirae"]["summary"]["messages"] for summary in summaries)
    assert counted + len(receiver.requests) - len(summaries) == 20


@pytest.mark.slow
def test_alert_that_fired_and_ended_while_nothing_ran_is_counted(
    public_folder: Path,
    settings: Settings,
    alerts: Alerts,
    receiver: FakeReceiver,
    connection: sql.Connection,
) -> None:
    with notifying(settings):
        alerts.fire("Known")
        wait_for(receiver, 1)
        alerts.resolve("Known")
        wait_for(receiver, 2)
    number = alerts.fire("Short")
    alerts.resolve("Short")
    alerts.fire("Withdrawn")
    alerts.withdraw("Withdrawn")
    with notifying(settings):
        wait_for(receiver, 3)
        AlertNoteGateway(connection).insert(
            number, NewAlertNote(kind="note", author="me", text="read again")
        )
        alerts.fire("Next")
        wait_for(receiver, 4)
    (summary, example) = receiver.requests[2].json["alerts"]
    assert summary["moirae"]["summary"]["resolved"] == 1
    assert summary["annotations"]["description"].startswith("Alerts fired and ended before they")
    assert example["labels"]["alertname"] == "Short"
    assert receiver.alert_names()[3] == ["Next firing"]
    # The note about an alert of which the receiver knows is no reason to count it.
    assert len(receiver.requests) == 4
    listed = run_command(public_folder, "receivers", "messages", "-o", "json").stdout
    counts = [m["alert_count"] for m in json.loads(listed) if m["cause"] == "summary"]
    assert counts == [1]


@pytest.mark.slow
def test_alerts_that_fired_before_the_oldest_stored_change_are_sent(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver, connection: sql.Connection
) -> None:
    """As after a time without receivers that is longer than changes are kept."""
    with notifying(settings):
        alerts.fire("Known")
        wait_for(receiver, 1)
    alerts.fire("Away")
    connection.execute(b"TRUNCATE changes")
    alerts.fire("Back")
    with notifying(settings):
        wait_for(receiver, 3)
    assert sorted(receiver.alert_names()[1:]) == [["Away firing"], ["Back firing"]]


def test_restored_workspace_sends_what_its_log_does_not_hold_once_and_marked(
    settings: Settings, alerts: Alerts, receiver: FakeReceiver, connection: sql.Connection
) -> None:
    with notifying(settings):
        alerts.fire("Told")
        alerts.fire("Ended")
        wait_for(receiver, 2)
    keys = {request.headers["Idempotency-Key"] for request in receiver.requests}
    alerts.resolve("Ended")
    alerts.fire("Untold")
    WorkspaceGateway(connection).begin_generation(
        2, backup="b", backed_up_at=datetime.now(UTC) - timedelta(hours=1)
    )
    connection.execute(b"UPDATE notify_state SET xid = xid + 1000000000")  # of another cluster
    for _ in range(2):
        with notifying(settings):
            wait_for(receiver, 4)
            time.sleep(1.2)
    sent = {
        alert["labels"]["alertname"]: (alert["status"], alert["moirae"].get("restored"))
        for request in receiver.requests[2:]
        for alert in request.json["alerts"]
    }
    assert len(receiver.requests) == 4
    assert sent == {"Untold": ("firing", True), "Ended": ("resolved", True)}
    assert not keys & {request.headers["Idempotency-Key"] for request in receiver.requests[2:]}


@pytest.mark.slow
def test_routes_are_taken_without_a_restart(
    public_folder: Path, alerts: Alerts, receiver: FakeReceiver
) -> None:
    with notifying(load_workspace(public_folder, make_workspace(receiver))):
        alerts.fire("Disk")
        wait_for(receiver, 1)
        (public_folder / "moirae.yaml").write_text("receivers: {ops: {webhook: 5}}\n")
        time.sleep(1.3)
        alerts.fire("Wrong")
        wait_for(receiver, 2)
        changed = make_workspace(receiver).replace("[alertname]", "['...']")
        (public_folder / "moirae.yaml").write_text(changed)
        time.sleep(1.5)
        alerts.fire("Net", {"host": "b"})
        wait_until(lambda: ["Net firing"] in receiver.alert_names(), seconds=15)
    keys = [request.json["groupKey"] for request in receiver.requests]
    assert '{}/{}:{alertname="Net", host="b"}' in keys


def run_command(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--workspace", str(folder)])


@pytest.mark.slow
def test_silence_holds_back_alerts_until_it_expires(
    public_folder: Path, settings: Settings, alerts: Alerts, receiver: FakeReceiver
) -> None:
    added = run_command(
        public_folder, "silence", "add", "host=a", "--comment", "maintenance", "-o", "json"
    )
    silence = json.loads(added.stdout)
    assert (silence["state"], silence["matchers"]) == ("active", ['host="a"'])
    with notifying(settings):
        alerts.fire("Disk", {"host": "a"})
        alerts.fire("Net", {"host": "b"})
        wait_for(receiver, 1)
        shown = run_command(public_folder, "routes", "show").stdout
        assert f"silenced by {silence['id'][:8]}" in shown
        preview = run_command(public_folder, "silence", "preview", "host=~.*a")
        assert "holds back 1 alerts that fire now" in preview.stdout
        assert run_command(public_folder, "silence", "expire", silence["id"][:8]).exit_code == 0
        wait_for(receiver, 2)
    assert receiver.alert_names() == [["Net firing"], ["Disk firing"]]
    assert "expired" in run_command(public_folder, "silence", "query", "--expired").stdout


@pytest.mark.slow
def test_preview_and_state_of_a_silence_with_windows_are_those_of_its_windows(
    public_folder: Path, alerts: Alerts
) -> None:
    alerts.fire("Disk", {"host": "a"})
    alerts.fire("Net", {"host": "a"}, age=86_400.0)

    def run_silence(verb: str, start: datetime, *arguments: str) -> str:
        windows = f"{start.minute} {start.hour} {start.day} * * for 30m"
        return run_command(
            public_folder, "silence", verb, "host=a", "--windows", windows, *arguments
        ).stdout

    now = datetime.now(UTC)
    day_before = run_silence("preview", now - timedelta(days=1, minutes=10))
    assert "holds back 0 alerts that fire now; would have held back 1 of" in day_before
    today = run_silence("preview", now - timedelta(minutes=10))
    assert "holds back 2 alerts that fire now; would have held back 1 of" in today
    number = run_silence("add", now - timedelta(hours=2), "--comment", "window").strip()
    listed = json.loads(run_command(public_folder, "silence", "query", "-o", "json").stdout)
    assert {silence["id"]: silence["state"] for silence in listed}[number] == "pending"


def test_silence_holds_back_what_is_sent_just_after_it(
    public_folder: Path, alerts: Alerts, receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_SILENCE_INTERVAL", 3600.0)
    settings = load_workspace(
        public_folder, make_workspace(receiver).replace("group_wait: 0s", "group_wait: 1s")
    )
    with notifying(settings):
        alerts.fire("Net", {"host": "b"})
        wait_for(receiver, 1)
        alerts.fire("Disk", {"host": "a"})
        added = run_command(public_folder, "silence", "add", "host=a", "--comment", "known")
        assert added.exit_code == 0
        alerts.fire("Fan", {"host": "b"})
        wait_for(receiver, 2)
    assert receiver.alert_names() == [["Net firing"], ["Fan firing"]]


def test_hostile_and_large_labels_are_delivered_as_they_are(
    public_folder: Path, alerts: Alerts, receiver: FakeReceiver
) -> None:
    text = "<!channel> {{ 7 * 7 }}\r\nBcc: a@b <script>"
    large = text + "".join(map(str, range(200_000)))  # more than a megabyte, hard to compress
    mailbox = Mailbox()
    with serving_mail(mailbox) as address:
        workspace = make_workspace(receiver).replace("[alertname]", "['...']")
        mail = f"email: {{to: [a@b.c], from: m@b.c, smarthost: '{address}', tls: none}}"
        workspace = workspace.replace("receivers: {", f"receivers: {{mail: {{{mail}}}, ")
        workspace = workspace.replace("routes: [", "routes: [{receiver: mail, continue: true}, ")
        workspace = workspace.replace("{receiver: mail,", "{receiver: mail, group_wait: 0s,")
        with notifying(load_workspace(public_folder, workspace)):
            alerts.fire("Disk", {"host": large}, annotations={"summary": large}, tag=text)
            wait_for(receiver, 1)
            wait_until(lambda: mailbox.mails, seconds=15)
    (alert,) = receiver.requests[0].json["alerts"]
    assert alert["labels"] == {"alertname": "Disk", "host": large, "tag": text}
    assert alert["annotations"] == {"summary": large}
    (sent,) = mailbox.mails
    assert sent["Bcc"] is None
    assert "<script>" not in sent.get_body(("html",)).get_content()
    assert "{{ 7 * 7 }}" in sent.get_body(("plain",)).get_content()


@pytest.mark.slow
def test_receiver_is_tested_and_its_state_and_messages_are_listed(
    public_folder: Path, settings: Settings, alerts: Alerts, receiver: FakeReceiver
) -> None:
    assert run_command(public_folder, "receivers", "test", "ops").exit_code == 0
    (message,) = receiver.requests
    assert message.json["alerts"][0]["labels"]["alertname"] == "Test"
    with notifying(settings):
        number = alerts.fire("Disk")
        wait_for(receiver, 2)
        time.sleep(0.3)
    alerts.resolve("Disk")
    preview = run_command(public_folder, "receivers", "preview", "ops", str(number)[:8])
    (shown,) = json.loads(preview.stdout)["alerts"]
    assert (shown["labels"], shown["status"]) == ({"alertname": "Disk"}, "firing")
    end = run_command(public_folder, "receivers", "preview", "ops", str(number)[:8], "--resolved")
    assert json.loads(end.stdout)["status"] == "resolved"
    listed = run_command(public_folder, "receivers", "messages", "-o", "json")
    (stored,) = json.loads(listed.stdout)
    assert (stored["state"], stored["cause"], stored["alert_count"]) == ("delivered", "first", 1)
    states = json.loads(run_command(public_folder, "receivers", "list", "-o", "json").stdout)
    assert states[0]["delivered_at"] is not None
    receiver.answer = lambda _: (500, {}, b"")
    failed = run_command(public_folder, "receivers", "test", "ops")
    assert failed.exit_code == 1
    assert "answered 500" in str(failed.exception)
    states_shown = run_command(public_folder, "receivers", "list").stdout
    assert "test message not taken" in states_shown and "answered 500" in states_shown
    receiver.answer = lambda _: (200, {}, b"")
    assert run_command(public_folder, "receivers", "test", "ops").exit_code == 0
    assert "not taken" not in run_command(public_folder, "receivers", "list").stdout


def test_receiver_that_fails_is_reported_to_the_others(
    public_folder: Path,
    connection: sql.Connection,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failing_receivers, "_FAILING_TIME", timedelta(seconds=0.1))
    monkeypatch.setattr(run, "_FAILING_INTERVAL", 0.2)
    text = make_workspace(receiver, more="").replace(
        "receivers: {", "receivers: {away: {webhook: 'http://127.0.0.1:9/'}, "
    )
    text = text.replace("routes: [", "routes: [{receiver: away, group_wait: 0s}, ")
    with notifying(load_workspace(public_folder, text)):
        Alerts(connection).fire("Disk")
        wait_for(receiver, 1)
    (message,) = receiver.requests
    labels = message.json["alerts"][0]["labels"]
    assert (labels["alertname"], labels["receiver"]) == ("ReceiverFailing", "away")
    (problem,) = find_notification_problems(
        {"notifications": collect_notification_status(connection)}
    )
    assert problem.startswith("receiver away: 1 messages wait since")


@pytest.mark.slow
def test_acknowledgements_that_cannot_be_read_are_reported(
    public_folder: Path,
    connection: sql.Connection,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failing_receivers, "_FAILING_TIME", timedelta(seconds=0.1))
    monkeypatch.setattr(run, "_FAILING_INTERVAL", 0.2)
    pager = "pager: {pagerduty: {routing_key: k, api_token: t, api: 'http://127.0.0.1:9'}}"
    text = make_workspace(receiver, more="").replace("receivers: {", f"receivers: {{{pager}, ")
    with notifying(load_workspace(public_folder, text)):
        wait_for(receiver, 1)
    (alert,) = receiver.requests[0].json["alerts"]
    assert (alert["labels"]["alertname"], alert["labels"]["receiver"]) == (
        "ReceiverFailing",
        "pager",
    )
    assert alert["annotations"]["summary"].startswith("Acknowledgements of receiver pager cannot")
    (problem,) = find_notification_problems(
        {"notifications": collect_notification_status(connection)}
    )
    assert problem.startswith("receiver pager: acknowledgements cannot be read since")
    assert "cannot connect to 127.0.0.1:9" in problem


def test_heartbeat_is_sent_while_the_live_process_runs(
    public_folder: Path, connection: sql.Connection, receiver: FakeReceiver
) -> None:
    text = make_workspace(receiver, more="heartbeat: {receiver: ops, every: 1s}\n")
    with notifying(load_workspace(public_folder, text)):
        time.sleep(1.2)
        assert receiver.requests == []
        role = Role(connection, "live", 1.0)
        role.heartbeat("running")
        wait_for(receiver, 2)
        role.heartbeat("ended")
    assert receiver.alert_names()[0] == ["Heartbeat firing"]
    assert receiver.requests[1].at - receiver.requests[0].at > 0.8


def test_refined_history_is_sent_once_it_says_other_things(
    public_folder: Path,
    alerts: Alerts,
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = load_workspace(
        public_folder, make_workspace(receiver).replace("webhook:", "refined: if_changed, webhook:")
    )
    similar: list[dict[str, str]] = []

    def find_history_of(_: sql.Connection, events: dict[UUID, UUID]) -> dict[str, object]:
        return {str(alert_id): {"similar": list(similar)} for alert_id in events}

    monkeypatch.setattr(refined, "find_history_of", find_history_of)
    monkeypatch.setattr(run, "_REFINED_INTERVAL", 0.05)
    with notifying(settings):
        alerts.fire("Disk", {"host": "a"})
        wait_for(receiver, 1)
        similar.append({"event": "past", "resolution": "restart"})
        wait_for(receiver, 2)
        alerts.resolve("Disk", {"host": "a"})
        wait_for(receiver, 3)
    assert receiver.alert_names() == [["Disk firing"], ["Disk firing"], ["Disk resolved"]]
    assert receiver.requests[1].json["alerts"][0]["moirae"]["similar"] == similar


def test_alerts_of_one_incident_are_one_message(
    public_folder: Path, connection: sql.Connection, alerts: Alerts, receiver: FakeReceiver
) -> None:
    text = make_workspace(receiver).replace("[alertname]", "[incident]")
    settings = load_workspace(public_folder, text)
    engine = IncidentEngine(connection, GroupingPolicy(), 0, lambda *_: NearbyChanges())
    with notifying(settings):
        # The process takes them before they are placed.
        for name, host in (("Disk", "a"), ("Cpu", "a"), ("Net", "b")):
            alerts.fire(name, {"host": host})
        time.sleep(0.5)
        engine.run_to_end()
        wait_for(receiver, 2)
        alerts.fire("Mail", {"host": "a"})
        engine.run_to_end()
        wait_for(receiver, 3)
    sent = [request.json for request in receiver.requests]
    first = [sorted(alert["labels"]["alertname"] for alert in entry["alerts"]) for entry in sent]
    assert sorted(first[:2]) == [["Cpu", "Disk"], ["Net"]]
    assert first[2] == ["Cpu", "Disk", "Mail"]
    placed = connection.execute(
        "SELECT m.incident::text FROM incident_alerts m JOIN alerts a ON a.id = m.alert_id"
        " WHERE a.rule = 'g/Disk'"
    ).fetchone()
    assert (sent[2]["groupLabels"]["incident"],) == placed
