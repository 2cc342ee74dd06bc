"""Notifications while their process is killed, PostgreSQL is away, or receivers misbehave in a storm.

Each alert is named in a message or counted in a summary, none as resolved before it was as firing.
"""

import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sql
from moirae.config.settings import load_settings
from moirae.runtime import connect_database
from tests.faults.copies import start_copy
from tests.faults.harness import workspace
from tests.faults.notifying import POINTS, main
from tests.faults.test_database_away import ENDS, Server, crash
from tests.notified_alerts import Alerts, clear, load_workspace
from tests.receivers import Answer, FakeReceiver, Received, fake_receiver
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.services, pytest.mark.processes]
_KILLS = int(os.environ.get("MOIRAE_KILLS", "100"))
_STORM = 10_000  # alerts within a minute
_PAGES = 100  # of them
_SEED = int(os.environ.get("MOIRAE_SEED", "1"))
_ROUTE = "group_wait: 0s, group_interval: 1s"


@contextmanager
def _notifying(folder: Path) -> Iterator[None]:
    """A process of notifications, killed at the end."""
    process = start_copy(main, folder, None, 0)
    try:
        yield
    finally:
        process.kill()
        process.join()


def _list_states(receiver: FakeReceiver, path: str = "/") -> dict[str, list[str]]:
    """Of each alert, the states in which a receiver took it, in order."""
    states: dict[str, list[str]] = {}
    for request in list(receiver.requests):
        if request.path != path:
            continue
        for alert in request.json["alerts"]:
            if "summary" in alert["moirae"]:
                break  # the alerts after it are examples of those that it counts
            states.setdefault(alert["moirae"]["id"], []).append(alert["status"])
    return states


def _list_resolved(receiver: FakeReceiver, path: str = "/") -> set[str]:
    """The alerts that a receiver was told to have ended."""
    states = _list_states(receiver, path)
    return {alert for alert, reported in states.items() if "resolved" in reported}


def _list_taken(connection: sql.Connection) -> set[str]:
    """The alerts of messages that the receiver has taken."""
    rows = connection.execute(
        b"SELECT a.alert_id FROM notification_alerts a JOIN notifications n ON n.id = a.notification "
        b"WHERE n.state = 'delivered'"
    )
    return {str(row[0]) for row in rows}


def _list_counted(connection: sql.Connection, receiver: str = "ops") -> set[str]:
    """The alerts that summaries count which a receiver has taken."""
    rows = connection.execute(
        "SELECT a.alert_id FROM notification_alerts a JOIN notifications n ON n.id = a.notification "
        "JOIN notifications s ON s.id = n.summary WHERE s.state = 'delivered' AND n.receiver = %s",
        (receiver,),
    )
    return {str(row[0]) for row in rows}


class _Feed:
    """Alerts that fire and end until a block is left; a third of them page a second receiver too."""

    def __init__(self, connection: sql.Connection, receiver: FakeReceiver) -> None:
        self._alerts = Alerts(connection)
        self._receiver = receiver
        self._chooser = random.Random(_SEED)
        self._open: dict[str, str] = {}
        """Names by ID."""
        self.fired: dict[str, set[str]] = {"/ops": set(), "/team": set()}
        self.resolved: set[str] = set()

    def step(self) -> None:
        """Have an alert fire, and perhaps another one end."""
        name = f"A{len(self.fired['/ops'])}"
        team = str(self._chooser.randrange(4)) if self._chooser.random() < 0.3 else ""
        alert_id = str(self._alerts.fire(name, team=team))
        self.fired["/ops"].add(alert_id)
        if team:
            self.fired["/team"].add(alert_id)
        else:
            self._open[alert_id] = name
        if self._open and self._chooser.random() < 0.4:
            ended = self._chooser.choice(list(self._open))
            self.resolved.add(str(self._alerts.resolve(self._open.pop(ended))))

    def is_told(self, connection: sql.Connection) -> bool:
        """Whether each alert is named in a message to each of its receivers, or counted."""
        return all(
            fired <= _list_states(self._receiver, path).keys() | _list_counted(connection, path[1:])
            for path, fired in self.fired.items()
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Go on in a thread until the block ends."""
        has_ended = threading.Event()

        def run() -> None:
            while not has_ended.wait(0.02):
                self.step()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()


@pytest.mark.timeout(900)
def test_each_alert_is_told_though_the_process_is_killed_at_any_point(public_folder: Path) -> None:
    points = list(POINTS)
    with fake_receiver() as receiver:
        settings = load_workspace(
            public_folder,
            f"receivers: {{ops: {{webhook: '{receiver.url}ops'}}, "
            f"team: {{webhook: '{receiver.url}team'}}}}\n"
            f"routes: [{{receiver: team, matchers: ['team=~\".+\"'], group_by: [team], {_ROUTE}, "
            f"continue: true}}, {{receiver: ops, group_by: ['...'], {_ROUTE}}}]\n"
            "limits: {notifications: 1000000}\n",
        )
        with (
            connect_database(settings, "tests") as connection,
            connect_database(settings, "feed") as feeding,
        ):
            clear(connection)
            feed = _Feed(feeding, receiver)
            with _notifying(public_folder):  # alerts that ended before its first start are not told
                feed.step()
                wait_until(lambda: feed.is_told(connection), seconds=60)
            started_at = time.monotonic()
            for number in range(_KILLS):
                process = start_copy(main, public_folder, points[number % len(points)], number)
                with feed.running():
                    # Most ends are its own; a summary is not always due.
                    process.join(3.0)
                process.kill()
                process.join()
            seconds = time.monotonic() - started_at
            with _notifying(public_folder):
                wait_until(lambda: feed.is_told(connection), seconds=240)
                # An alert that has ended before it could be sent is counted.
                wait_until(
                    lambda: (
                        feed.resolved
                        <= _list_resolved(receiver, "/ops") | _list_counted(connection)
                    ),
                    seconds=240,
                )
                counted = _list_counted(connection)
    assert not counted & _list_states(receiver, "/ops").keys()
    for path in feed.fired:
        assert all(states[0] == "firing" for states in _list_states(receiver, path).values())
    by_key: dict[str, Any] = {}
    for request in receiver.requests:
        first = by_key.setdefault(request.headers["Idempotency-Key"], request.json)
        assert request.json == first, "a key stands for one message"
    print(
        f"seed {_SEED}: {_KILLS} kills in {seconds:.0f} s, {len(feed.fired['/ops'])} alerts, "
        f"{len(counted)} of them counted, {len(receiver.requests) - len(by_key)} messages sent twice"
    )


@pytest.mark.timeout(900)
def test_storm_is_told_whole_by_a_receiver_that_misbehaves(public_folder: Path) -> None:
    chooser = random.Random(_SEED)

    def answer(_: Received) -> Answer:
        match chooser.randrange(20):
            case 0:
                return 429, {"Retry-After": "1"}, b"slow down"
            case 1:
                return 500, {}, b"\xff\x00 garbage"
            case 2:
                return None  # closed without an answer
            case 3:
                return b"\xff\x00 garbage"
            case 4:
                time.sleep(0.5)
        return 200, {}, b"\xff\x00 garbage"

    with fake_receiver() as receiver:
        receiver.answer = answer
        settings = load_workspace(
            public_folder,
            f"receivers: {{ops: {{webhook: '{receiver.url}'}}}}\n"
            f"routes: [{{receiver: ops, group_by: ['...'], {_ROUTE}}}]\n",
        )
        with connect_database(settings, "tests") as connection:
            clear(connection)
            alerts = Alerts(connection)
            with _notifying(public_folder):
                started_at = time.monotonic()
                fired: set[str] = set()
                pages: set[str] = set()
                for number in range(_STORM):
                    is_page = number % (_STORM // _PAGES) == 0
                    severity = "page" if is_page else "ticket"
                    alert_id = str(alerts.fire(f"A{number}", severity=severity))
                    (pages if is_page else fired).add(alert_id)
                stored_in = time.monotonic() - started_at
                wait_until(
                    lambda: (
                        fired <= _list_taken(connection) | _list_counted(connection)
                        and pages <= _list_taken(connection)
                    ),
                    seconds=600,
                )
                counted = _list_counted(connection)
    taken = [request for request in receiver.requests if request.json["status"] == "firing"]
    print(f"{_STORM} alerts in {stored_in:.0f} s, {len(counted)} counted, {len(taken)} requests")
    states = _list_states(receiver)
    assert all(reported[0] == "firing" for reported in states.values())
    assert pages <= states.keys()


_FAULTS: dict[str, Answer] = {
    "busy": (429, {"Retry-After": "1"}, b"slow down"),
    "broken": (500, {}, b"\xff\x00 garbage"),
    "garbage": b"\xff\x00 garbage\r\n\r\n",
    "truncated": b"HTTP/1.1 20",
    "closing": None,
    "redirecting": (302, {"Location": "http://127.0.0.1:1/"}, b""),
}


def _wait_for_ends(receiver: FakeReceiver, name: str, resolved: set[str]) -> dict[str, list[str]]:
    """The states in which each alert was told, once these have been told to have ended."""
    path = f"/{name}"
    wait_until(lambda: resolved <= _list_resolved(receiver, path), seconds=60)
    return _list_states(receiver, path)


@pytest.mark.timeout(300)
def test_each_receiver_is_told_in_order_once_it_recovers(public_folder: Path) -> None:
    names = ("good", "slow", *_FAULTS)
    failures = dict.fromkeys(names, 3)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]

    def answer(request: Received) -> Answer:
        name = request.path.strip("/")
        if name != "good" and failures[name]:
            failures[name] -= 1
            if name != "slow":
                return _FAULTS[name]
            time.sleep(2.0)
            return None
        return 200, {}, b""

    with fake_receiver() as receiver:
        receiver.answer = answer
        urls = {name: f"{receiver.url}{name}" for name in names}
        urls["down"] = f"http://127.0.0.1:{port}/down"
        declared = "".join(
            f"  {name}: {{webhook: '{url}', timeout: 1s}}\n" for name, url in urls.items()
        )
        routes = "".join(
            f"- {{receiver: {name}, group_by: [alertname], {_ROUTE}, continue: true}}\n"
            for name in urls
        )
        settings = load_workspace(public_folder, f"receivers:\n{declared}routes:\n{routes}")
        with connect_database(settings, "tests") as connection:
            clear(connection)
            alerts = Alerts(connection)
            fired, resolved = set(), set()
            with _notifying(public_folder):
                for number in range(10):
                    fired.add(str(alerts.fire(f"A{number}")))
                wait_until(lambda: fired <= _list_states(receiver, "/good").keys())
                delivered_at = time.monotonic()
                for number in range(5):
                    resolved.add(str(alerts.resolve(f"A{number}")))
                wait_until(lambda: resolved <= _list_resolved(receiver, "/good"))
                assert time.monotonic() - delivered_at < 10, "other receivers hold it back"
                told = {name: _wait_for_ends(receiver, name, resolved) for name in names}
                with fake_receiver(port) as recovered:
                    told["down"] = _wait_for_ends(recovered, "down", resolved)
    for name, states in told.items():
        assert fired <= states.keys(), name  # and what is told of receivers that fail
        assert all(reported[0] == "firing" for reported in states.values()), name
    assert not any(failures[name] for name in _FAULTS)


@pytest.mark.timeout(600)
def test_alerts_are_told_after_database_outages() -> None:
    with workspace("", "") as folder, fake_receiver() as receiver:
        server = Server(folder)
        (folder / "moirae.yaml").write_text(
            f"database: '{server.dsn}'\nreceivers: {{ops: {{webhook: '{receiver.url}'}}}}\n"
            f"routes: [{{receiver: ops, group_by: ['...'], {_ROUTE}}}]\n"
            "limits: {notifications: 1000000}\n"
        )
        settings = load_settings(folder, {})
        fired: set[str] = set()

        def are_told() -> bool:
            return fired == _list_states(receiver).keys()

        try:
            for number, end in enumerate(ENDS):
                process = start_copy(main, folder, None, 0)
                with connect_database(settings, "tests") as connection:
                    alerts = Alerts(connection)
                    fired.add(str(alerts.fire(f"Before{number}")))
                    wait_until(are_told, seconds=120)
                    fired |= {str(alerts.fire(f"During{number}-{index}")) for index in range(20)}
                crash(server.folder, end)
                process.join(60)  # its supervisor starts it again
                assert not process.is_alive()
                server.start()
            with connect_database(settings, "tests") as connection, _notifying(folder):
                fired.add(str(Alerts(connection).fire("After")))
                wait_until(are_told, seconds=120)
        finally:
            server.stop()
    keys = [request.headers["Idempotency-Key"] for request in receiver.requests]
    print(f"{len(fired)} alerts, {len(keys) - len(set(keys))} messages sent twice")
