"""A thread for each receiver, or app of several, that reports acknowledgements."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import structlog

from archiver.threads import start_daemon
from moirae.config import Receiver
from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy
from moirae.notify.inbound.acknowledgements import Acknowledgement
from moirae.notify.inbound.pagerduty import PagerDutyPoller
from moirae.notify.inbound.slack import SlackSocket

_LOG = structlog.get_logger()
Item = TypeVar("Item")

_FIRST_PAUSE = 1.0  # seconds after a failure; doubled after each further one
_MAX_PAUSE = 60.0  # seconds


@dataclass(frozen=True)
class ReportedAcknowledgement:
    """`receivers`: to one of which the group belongs. `stored`: set once it is stored."""

    receivers: tuple[str, ...]
    acknowledgement: Acknowledgement
    stored: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Reading:
    """Whether the acknowledgements of receivers can be read. `error` None: they can, or are not."""

    receivers: tuple[str, ...]
    error: str | None


Report = Callable[[Acknowledgement], threading.Event]
"""Hands over an acknowledgement; returns what is set once it is stored."""
Listen = Callable[[threading.Event, Callable[[], None]], None]
"""Listens until an event is set; calls a function whenever it works. Raises `DeliveryFailed`."""


@dataclass(frozen=True)
class _Source:
    """Where acknowledgements come from. Equal sources go on when the settings change."""

    channel: str
    receivers: tuple[str, ...]
    declared: Receiver
    hosts: HostPolicy


class Listeners:
    """The threads that run now. A source that fails is tried again, and delays no other."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[_Source, threading.Event]] = {}
        self._reported: SimpleQueue[ReportedAcknowledgement] = SimpleQueue()
        self._readings: SimpleQueue[Reading] = SimpleQueue()

    def declare(self, receivers: Mapping[str, Receiver], hosts: HostPolicy) -> None:
        """Listen to these receivers from now on."""
        sources = find_sources(receivers, hosts)
        listened = {name for source in sources.values() for name in source.receivers}
        self._readings.put(Reading(tuple(receivers.keys() - listened), None))
        for name, (source, stop) in list(self._running.items()):
            if sources.get(name) != source:
                stop.set()
                del self._running[name]
        for name, source in sources.items():
            if name not in self._running:
                stop = threading.Event()
                self._running[name] = source, stop
                start_daemon(partial(self._run, source, stop), f"{source.channel} {name}")

    def take(self) -> list[ReportedAcknowledgement]:
        """What was reported since the last call."""
        return _take_all(self._reported)

    def take_readings(self) -> list[Reading]:
        """Since the last call, for which receivers reading began to fail or to work."""
        return _take_all(self._readings)

    def close(self) -> None:
        """Have the threads end."""
        for _, stop in self._running.values():
            stop.set()

    def _report(self, source: _Source, acknowledgement: Acknowledgement) -> threading.Event:
        reported = ReportedAcknowledgement(source.receivers, acknowledgement)
        self._reported.put(reported)
        return reported.stored

    def _run(self, source: _Source, stop: threading.Event) -> None:
        listen = _make_listener(source, partial(self._report, source))
        failures = 0
        last: Reading | None = None

        def note(error: str | None) -> None:
            nonlocal last
            reading = Reading(source.receivers, error)
            if reading != last and not stop.is_set():
                self._readings.put(reading)
                last = reading

        def note_success() -> None:
            nonlocal failures
            failures = 0
            note(None)

        while not stop.is_set():
            try:
                listen(stop, note_success)
            except DeliveryFailed as error:
                note(str(error))
                if failures == 0:
                    _LOG.warning(
                        "acknowledgements cannot be read",
                        action="acknowledgements_unread",
                        receivers=list(source.receivers),
                        error=str(error),
                    )
                stop.wait(min(_FIRST_PAUSE * 2**failures, _MAX_PAUSE))
                failures = min(failures + 1, 16)


def _take_all(queue: "SimpleQueue[Item]") -> list[Item]:
    taken: list[Item] = []
    while True:
        try:
            taken.append(queue.get_nowait())
        except Empty:
            return taken


def find_sources(receivers: Mapping[str, Receiver], hosts: HostPolicy) -> dict[str, _Source]:
    """The sources of acknowledgements by the name of a receiver.

    Receivers of one Slack app share a connection: Slack delivers a press to one connection only.
    """
    sources: dict[str, _Source] = {}
    by_app: dict[tuple[str, str], list[str]] = {}
    for name, declared in sorted(receivers.items()):
        if declared.pagerduty is not None and declared.pagerduty.api_token is not None:
            sources[name] = _Source("pagerduty", (name,), declared, hosts)
        elif declared.slack is not None and declared.slack.app_token is not None:
            app = declared.slack.app_token.get_secret_value(), declared.slack.api
            by_app.setdefault(app, []).append(name)
    for names in by_app.values():
        sources[names[0]] = _Source("slack", tuple(names), receivers[names[0]], hosts)
    return sources


def _make_listener(source: _Source, report: Report) -> Listen:
    if source.declared.pagerduty is not None:
        return PagerDutyPoller(source.declared.pagerduty, source.hosts, report).listen
    assert source.declared.slack is not None
    return SlackSocket(source.declared.slack, source.hosts, report).listen
