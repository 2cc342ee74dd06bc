"""The same alerts, silences and inhibitions played to the real Alertmanager and to Moirae.

Groups, receivers and members of every message are equal; so are their times.
"""

import math
import os
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

import sql
from moirae.config import Settings
from moirae.runtime import connect_database
from sql.notifications import NewSilence, SilenceGateway
from tests.alertmanager import Alertmanager, find_program, running_alertmanager
from tests.alertmanager.scenario import Scenario, Step, make_scenario
from tests.notified_alerts import Alerts, clear, load_workspace, notifying
from tests.receivers import FakeReceiver, Received, fake_receiver
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.services,
    pytest.mark.skipif(
        find_program("prometheus-alertmanager") is None,
        reason="needs Alertmanager: run `make alertmanager`",
    ),
]
_NAMESPACE = UUID(int=7)
# How many times longer all times are. A busy machine needs more: the tolerance grows alike.
_SCALE = float(os.environ.get("MOIRAE_TIME_SCALE", "1"))
_SHORTEST_INTERVAL = 2.0  # seconds: the least `group_interval` of a scenario
# Seconds: the hundredth part of a `group_interval`, or 0.2 s, whichever is more.
_TOLERANCE = max(0.2, _SHORTEST_INTERVAL * _SCALE / 100)
_SEEDS = [int(seed) for seed in os.environ.get("MOIRAE_SEEDS", "1 2 3 4").split()]
_CLEANUP_INTERVAL = 30.0  # seconds
_FAR = "2099-01-01T00:00:00Z"

Message = tuple[float, tuple[tuple[str, str], ...]]
"""When it was received, and its alerts: labels and state."""


def _now() -> datetime:
    return datetime.now(UTC)


def _is_notifying(connection: sql.Connection) -> bool:
    """Whether the process of notifications follows the changes of alerts."""
    row = connection.execute(b"SELECT change FROM notify_state").fetchone()
    return row is not None and row[0] is not None


class _Player:
    """Does each step in both systems; a restart in ours only."""

    def __init__(
        self, alertmanager: Alertmanager, connection: sql.Connection, process: "_Process"
    ) -> None:
        self._alertmanager = alertmanager
        self._connection = connection
        self._process = process
        self._alerts = Alerts(connection)
        self._silences: dict[int, str] = {}

    def play(self, step: Step) -> None:
        getattr(self, f"_{step.kind}")(step)

    def _fire(self, step: Step) -> None:
        labels = dict(step.labels)
        key = {name: value for name, value in labels.items() if name != "alertname"}
        self._alertmanager.request("POST", "alerts", [{"labels": labels, "endsAt": _FAR}])
        self._alerts.fire(labels["alertname"], key)

    def _resolve(self, step: Step) -> None:
        labels = dict(step.labels)
        key = {name: value for name, value in labels.items() if name != "alertname"}
        ended = {"labels": labels, "endsAt": _now().isoformat()}
        self._alertmanager.request("POST", "alerts", [ended])
        self._alerts.resolve(labels["alertname"], key)

    def _silence(self, step: Step) -> None:
        ((name, value),) = step.labels.items()
        starts_at, ends_at = _now(), _now() + timedelta(hours=1)
        matcher = {"name": name, "value": value, "isRegex": False, "isEqual": True}
        body = {
            "matchers": [matcher],
            "startsAt": starts_at.isoformat(),
            "endsAt": ends_at.isoformat(),
            "createdBy": "t",
            "comment": "t",
        }
        answer = self._alertmanager.request("POST", "silences", body)
        self._silences[step.number] = answer["silenceID"]
        silence = NewSilence(
            id=uuid5(_NAMESPACE, str(step.number)),
            matchers=[f'{name}="{value}"'],
            starts_at=starts_at,
            ends_at=ends_at,
            schedule=None,
            author="t",
            comment="t",
        )
        SilenceGateway(self._connection).put(silence)

    def _restart(self, _: Step) -> None:
        self._process.restart()

    def _expire(self, step: Step) -> None:
        self._alertmanager.request("DELETE", f"silence/{self._silences[step.number]}")
        SilenceGateway(self._connection).expire(uuid5(_NAMESPACE, str(step.number)), _now())


def _list_messages(receiver: FakeReceiver) -> dict[tuple[str, str], list[Message]]:
    """Messages by receiver and group key, in order."""
    messages: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for request in receiver.requests:
        body = request.json
        message = _describe(request, body)
        told = messages[request.path, body["groupKey"]]
        # Where routes have equal keys and receivers, Alertmanager may send a message for each: one
        # does not wait until the other has noted it.
        if not told or told[-1][1] != message[1] or message[0] - told[-1][0] > _TOLERANCE:
            told.append(message)
    return messages


def _describe(request: Received, body: Any) -> Message:
    alerts = sorted((str(sorted(a["labels"].items())), a["status"]) for a in body["alerts"])
    return request.at, tuple(alerts)


class _Process:
    """The process of notifications, which may be restarted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._running = ExitStack()

    def __enter__(self) -> "_Process":
        self._running.enter_context(notifying(self._settings))
        return self

    def restart(self) -> None:
        self._running.close()
        self._running.enter_context(notifying(self._settings))

    def __exit__(self, *_: object) -> None:
        self._running.close()


@dataclass(frozen=True)
class _Cleanups:
    """When the systems remove empty groups: every 30 s from their start, which is between two times.

    `fired`: when alerts fired. `restarted`: when ours was started again; infinite: it never was.
    """

    started: float
    ready: float
    fired: list[float]
    restarted: float

    def may_differ(self, emptied: float, until: float, is_empty: bool) -> bool:
        """Whether a group that was empty since a time may have been removed by one of them only.

        `is_empty`: its last message says that all have ended, or the receiver is not told of ends.
        """
        if until > self.restarted:
            return is_empty and until - emptied > _SHORTEST_INTERVAL * _SCALE
        times = [emptied, *(at for at in self.fired if emptied < at < until)]
        span = self.ready - self.started + 2 * _TOLERANCE
        return any((at - self.started + _TOLERANCE) % _CLEANUP_INTERVAL < span for at in times)


def _compare(
    expected: list[Message],
    actual: list[Message],
    steps: list[tuple[float, float]],
    cleanups: _Cleanups,
    end: float,
    tells_ends: bool,
) -> list[str]:
    """The differences of two sequences; messages about the end of the play may be missing.

    `steps`: when each began and was done in both systems. A step within the tolerance of a message
    may be in it or in the next one, and an alert of a
    group that one system may have removed may come after `group_wait` or at the next interval: the
    comparison of the group ends there.
    """
    problems = []
    earlier = 0.0
    for index in range(max(len(expected), len(actual))):
        pair = [
            messages[index] if index < len(messages) else None for messages in (expected, actual)
        ]
        times = [message[0] for message in pair if message is not None]
        if min(times) > end - 1.0:
            break
        is_equal = pair[0] is not None and pair[1] is not None and pair[0][1] == pair[1][1]
        is_apart = abs(times[0] - times[-1]) > _TOLERANCE
        if (is_apart or not is_equal) and any(
            begun - _TOLERANCE < at < ended + _TOLERANCE for begun, ended in steps for at in times
        ):
            break
        is_empty = index == 0 or all(state == "resolved" for _, state in expected[index - 1][1])
        is_empty = is_empty or not tells_ends
        if (is_apart or not is_equal) and cleanups.may_differ(earlier, max(times), is_empty):
            break
        earlier = min(times)
        if pair[0] is None or pair[1] is None:
            problems.append(f"{index}: expected {pair[0]}, got {pair[1]}")
            break
        if pair[0][1] != pair[1][1]:
            problems.append(f"{index}: expected {pair[0]}, got {pair[1]}")
            break
        if abs(times[0] - times[1]) > _TOLERANCE:
            problems.append(f"{index}: {times[1] - times[0]:+.3f} s")
    return problems


def _play(scenario: Scenario, player: _Player, start: float) -> list[tuple[float, float]]:
    """Returns when each step began and ended: on a busy machine one takes some time."""
    spans = []
    for step in scenario.steps:
        time.sleep(max(0.0, start + step.at - time.time()))
        begun = min(start + step.at, time.time())
        player.play(step)
        spans.append((begun, time.time()))
    time.sleep(max(0.0, start + scenario.duration - time.time()))
    return spans


@pytest.mark.parametrize("restarts", [0, 2])
@pytest.mark.parametrize("seed", _SEEDS)
def test_messages_are_those_of_alertmanager(
    seed: int, restarts: int, public_folder: Path, tmp_path: Path
) -> None:
    scenario = make_scenario(seed, _SCALE, restarts=restarts)
    with fake_receiver() as theirs, fake_receiver() as ours:
        settings = load_workspace(public_folder, scenario.moirae(ours.url))
        with connect_database(settings, "tests") as connection:
            clear(connection)
            config = scenario.alertmanager(theirs.url)
            started = time.time()
            with (
                running_alertmanager(config, tmp_path) as alertmanager,
                _Process(settings) as process,
            ):
                wait_until(lambda: _is_notifying(connection))
                start = time.time()
                steps = _play(scenario, _Player(alertmanager, connection, process), start)
                end = time.time()
        expected, actual = _list_messages(theirs), _list_messages(ours)
    assert expected, "the scenario sends nothing"
    played = list(zip(scenario.steps, steps, strict=True))
    fired = [begun for step, (begun, _) in played if step.kind == "fire"]
    restarted = [begun for step, (begun, _) in played if step.kind == "restart"]
    lateness = max(ended - start - step.at for step, (_, ended) in played)
    print(f"seed {seed}: steps were done up to {lateness:.2f} s late")
    cleanups = _Cleanups(started, start, fired, min(restarted, default=math.inf))
    problems = {}
    for key in expected.keys() | actual.keys():
        tells_ends = key[0] != "/r1"
        differences = _compare(
            expected.get(key, []), actual.get(key, []), steps, cleanups, end, tells_ends
        )
        if differences:
            problems[key] = differences
    assert problems == {}, f"{problems}\n{scenario.moirae('')}"
