"""Notifications while their process is killed, PostgreSQL is away, or receivers misbehave in a storm.

Each alert is named in a message or counted in a summary, none as resolved before it was as firing.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sql
from moirae.runtime import connect_database
from tests.faults.harness import workspace
from tests.faults.test_database_away import Server, crash
from tests.notified_alerts import Alerts, clear, load_workspace
from tests.receivers import FakeReceiver, Received, fake_receiver
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.services, pytest.mark.processes]
_KILLS = int(os.environ.get("MOIRAE_KILLS", "100"))
_STORM = 10_000  # alerts within a minute
_SEED = int(os.environ.get("MOIRAE_SEED", "1"))


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "moirae", "run", "notify", "--workspace", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _list_states(receiver: FakeReceiver) -> dict[str, list[str]]:
    """Of each alert, the states in which it was told, in order."""
    states: dict[str, list[str]] = {}
    for request in list(receiver.requests):
        for alert in request.json["alerts"]:
            if "summary" in alert["moirae"]:
                break  # the alerts after it are examples of those that it counts
            states.setdefault(alert["moirae"]["id"], []).append(alert["status"])
    return states


def _list_resolved(receiver: FakeReceiver) -> set[str]:
    """The alerts that were told to have ended."""
    return {alert for alert, states in _list_states(receiver).items() if "resolved" in states}


def _list_taken(connection: sql.Connection) -> set[str]:
    """The alerts of messages that the receiver has taken."""
    rows = connection.execute(
        b"SELECT a.alert_id FROM notification_alerts a JOIN notifications n ON n.id = a.notification "
        b"WHERE n.state = 'delivered'"
    )
    return {str(row[0]) for row in rows}


def _list_counted(connection: sql.Connection) -> set[str]:
    """The alerts that summaries count which the receiver has taken."""
    rows = connection.execute(
        b"SELECT a.alert_id FROM notification_alerts a JOIN notifications n ON n.id = a.notification "
        b"JOIN notifications s ON s.id = n.summary WHERE s.state = 'delivered'"
    )
    return {str(row[0]) for row in rows}


@pytest.mark.timeout(3_600)
def test_each_alert_is_told_though_the_process_is_killed_at_any_point(public_folder: Path) -> None:
    chooser = random.Random(_SEED)
    with fake_receiver() as receiver:
        settings = load_workspace(
            public_folder,
            f"receivers: {{ops: {{webhook: '{receiver.url}'}}}}\n"
            "routes: [{receiver: ops, group_by: ['...'], group_wait: 0s, group_interval: 1s}]\n"
            "limits: {notifications: 1000000}\n",
        )
        with connect_database(settings, "tests") as connection:
            clear(connection)
            alerts = Alerts(connection)
            fired: set[str] = set()
            resolved: set[str] = set()
            kills = 0
            process = _start(public_folder)
            while kills < _KILLS:
                for number in range(3):
                    fired.add(str(alerts.fire(f"A{kills}-{number}")))
                sent = len(receiver.requests)
                deadline = time.monotonic() + 60
                while len(receiver.requests) == sent and time.monotonic() < deadline:
                    time.sleep(0.002)
                # Just after a message has arrived, which may not be committed yet.
                time.sleep(chooser.uniform(0.0, 0.05))
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                if kills % 3 == 0:
                    resolved.add(str(alerts.resolve(f"A{kills - 3}-0")))
                process = _start(public_folder)
            try:
                # An alert that has ended before it could be sent is counted.
                wait_until(
                    lambda: fired <= _list_states(receiver).keys() | _list_counted(connection),
                    seconds=240,
                )
                wait_until(
                    lambda: resolved <= _list_resolved(receiver) | _list_counted(connection),
                    seconds=240,
                )
                counted = _list_counted(connection)
            finally:
                process.terminate()
                process.wait(20)
    states = _list_states(receiver)
    assert not counted & states.keys()
    assert all(reported[0] == "firing" for reported in states.values())
    by_key: dict[str, Any] = {}
    for request in receiver.requests:
        first = by_key.setdefault(request.headers["Idempotency-Key"], request.json)
        assert request.json == first, "a key stands for one message"
    repeated = len(receiver.requests) - len(by_key)
    print(
        f"seed {_SEED}: {kills} kills, {len(fired)} alerts, {len(counted)} of them counted, "
        f"{repeated} messages sent twice"
    )


@pytest.mark.timeout(900)
def test_storm_is_told_whole_by_a_receiver_that_misbehaves(public_folder: Path) -> None:
    chooser = random.Random(_SEED)

    def answer(_: Received) -> tuple[int, dict[str, str], bytes] | None:
        match chooser.randrange(10):
            case 0:
                return 429, {"Retry-After": "1"}, b"slow down"
            case 1:
                return 500, {}, b"\xff\x00 garbage"
            case 2:
                return None  # closed without an answer
            case 3:
                time.sleep(0.5)
        return 200, {}, b"\xff\x00 garbage"

    with fake_receiver() as receiver:
        receiver.answer = answer
        settings = load_workspace(
            public_folder,
            f"receivers: {{ops: {{webhook: '{receiver.url}'}}}}\n"
            "routes: [{receiver: ops, group_by: ['...'], group_wait: 0s, group_interval: 1s}]\n",
        )
        with connect_database(settings, "tests") as connection:
            clear(connection)
            alerts = Alerts(connection)
            process = _start(public_folder)
            try:
                started_at = time.monotonic()
                fired = {str(alerts.fire(f"A{number}")) for number in range(_STORM)}
                stored_in = time.monotonic() - started_at
                wait_until(
                    lambda: fired <= _list_taken(connection) | _list_counted(connection),
                    seconds=600,
                )
                counted = _list_counted(connection)
            finally:
                process.terminate()
                process.wait(20)
    taken = [request for request in receiver.requests if request.json["status"] == "firing"]
    print(f"{_STORM} alerts in {stored_in:.0f} s, {len(counted)} counted, {len(taken)} requests")
    assert all(states[0] == "firing" for states in _list_states(receiver).values())


def test_alerts_are_told_after_a_database_outage() -> None:
    with workspace("", "") as folder, fake_receiver() as receiver:
        server = Server(folder)
        settings = load_workspace(
            folder,
            f"database: '{server.dsn}'\nreceivers: {{ops: {{webhook: '{receiver.url}'}}}}\n"
            "routes: [{receiver: ops, group_by: ['...'], group_wait: 0s, group_interval: 1s}]\n",
        )
        told: set[str] = set()

        def list_told() -> set[str]:
            told.update(_list_states(receiver))
            return told

        try:
            with connect_database(settings, "tests") as connection:
                process = _start(folder)
                first = str(Alerts(connection).fire("Before"))
                wait_until(lambda: first in list_told(), seconds=120)
                second = str(Alerts(connection).fire("During"))
            crash(server.folder, signal.SIGQUIT)
            process.wait(60)  # its supervisor starts it again
            server.start()
            with connect_database(settings, "tests") as connection:
                process = _start(folder)
                third = str(Alerts(connection).fire("After"))
                wait_until(lambda: {second, third} <= list_told(), seconds=120)
        finally:
            process.kill()
            process.wait()
            server.stop()
    names = [name for request in receiver.alert_names() for name in request]
    assert names.count("Before firing") == 1
