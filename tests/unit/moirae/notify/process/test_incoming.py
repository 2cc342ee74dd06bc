"""Alerts that change while their first message waits for history, and after a restart."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from moirae.config import InhibitRule
from moirae.notify.process.incoming import Incoming
from moirae.notify.routing.grouping import Grouping
from moirae.notify.routing.intake import RuleWaits
from moirae.notify.routing.muting import Muting
from sql.notifications import NotifiedAlertRow
from sql.reports import ChangePosition
from tests.unit.moirae.notify.builders import at, describe, make_grouping
from tests.unit.moirae.notify.routing.test_intake import ROW

HOUR = timedelta(hours=1)
WAITS = RuleWaits(history=timedelta(seconds=5), recalls=1)


class Store:
    """What `Incoming` reads of the database: one alert."""

    def __init__(self, row: NotifiedAlertRow, waits: RuleWaits) -> None:
        self.row = row
        self.waits = waits
        self.changes = 1
        self.raised_later: list[UUID] = []
        self.unread: Collection[str] = ()

    def load_position(self) -> ChangePosition:
        return ChangePosition(0, 0)

    def load_waits(self) -> Mapping[str, RuleWaits]:
        return {self.row.rule: self.waits}

    def list_changed(self, after: ChangePosition, limit: int) -> tuple[list[UUID], ChangePosition]:
        newest = ChangePosition(0, self.changes)
        return ([], after) if after == newest else ([self.row.id], newest)

    def list_alerts(self, alert_ids: Collection[UUID]) -> list[NotifiedAlertRow]:
        return [self.row for _ in alert_ids]

    def list_raised_after(self, position: ChangePosition, alert_ids: Collection[UUID]) -> list[Any]:
        return self.raised_later

    def count_answered(self, events: Collection[UUID]) -> dict[UUID, int]:
        return {}

    def find_unread(self, rules: Collection[str]) -> Collection[str]:
        return self.unread

    def load_held(self) -> list[Any]:
        return []

    def list_active(self) -> list[UUID]:
        return [self.row.id]

    def change(self, **columns: Any) -> None:
        self.row = replace(self.row, **columns)
        self.changes += 1


def follow(store: Store, *seconds: float) -> list[tuple[float, list[str]]]:
    """The messages until each of some times, at the last of which the alert has ended."""
    grouping = make_grouping({"receiver": "r", "group_wait": "0s"}, r={})
    incoming = Incoming(store, grouping, HOUR)  # type: ignore[arg-type]
    messages: list[tuple[float, list[str]]] = []
    for number, second in enumerate(seconds):
        if number == 1:
            store.change(state="resolved", ends_at=at(second), updated_at=at(second))
        incoming.follow(at(second))
        incoming.release(at(second))
        messages += [(second, describe(message)) for message in incoming.flush_due(at(second))]
    messages += [
        (0.0, [f"{alert.labels['alertname']} unsent"])
        for alert in incoming.take_unsent(at(seconds[-1]))
    ]
    return messages


@pytest.mark.parametrize("ended_after", [2.0, 6.0])
def test_alert_that_ends_while_history_is_awaited_is_told_and_ends_later(
    ended_after: float,
) -> None:
    messages = follow(Store(ROW, WAITS), 0, ended_after, 301 + ended_after)
    assert messages[0] == (ended_after, ["A firing"])
    assert messages[1:] == [(301 + ended_after, ["A resolved"])]


@pytest.mark.parametrize("history", [None, "waiting"])
def test_alert_that_ends_before_its_condition_is_known_is_counted(history: str | None) -> None:
    store = Store(replace(ROW, history=history), RuleWaits(where=timedelta(seconds=30)))
    assert follow(store, 0, 2, 400) == [(0.0, ["A unsent"])]


def test_withdrawn_alert_is_not_told() -> None:
    store = Store(replace(ROW, history="withdrawn"), WAITS)
    assert follow(store, 0, 2, 400) == []


def restart(store: Store, grouping: Grouping) -> Incoming:
    """The successor of a process that has read all changes."""
    store.changes = 0
    incoming = Incoming(store, grouping, HOUR)  # type: ignore[arg-type]
    incoming.restore(at(10))
    incoming.follow(at(10))
    return incoming


def test_alert_is_told_after_a_restart_by_a_route_that_is_new() -> None:
    grouping = make_grouping({"receiver": "r", "group_wait": "0s"}, r={})
    incoming = restart(Store(ROW, RuleWaits()), grouping)
    assert list(map(describe, incoming.flush_due(at(10)))) == [["A firing"]]


def test_alert_that_fired_while_nothing_ran_and_ends_after_the_start_is_counted() -> None:
    grouping = make_grouping({"receiver": "r", "group_wait": "0s"}, r={})
    store = Store(ROW, RuleWaits())
    store.raised_later = [ROW.id]
    incoming = Incoming(store, grouping, HOUR)  # type: ignore[arg-type]
    incoming.restore(at(10))
    store.change(state="resolved", ends_at=at(11), updated_at=at(11))
    incoming.follow(at(11))
    assert incoming.flush_due(at(11)) == []
    assert [alert.id for alert in incoming.take_unsent(at(11))] == [ROW.id]


def test_alert_that_fired_long_ago_waits_until_the_streams_of_its_rule_are_read() -> None:
    grouping = make_grouping({"receiver": "r", "group_wait": "0s"}, r={})
    store = Store(replace(ROW, fired_at=at(-7200)), RuleWaits())
    incoming = Incoming(store, grouping, HOUR)  # type: ignore[arg-type]
    incoming.follow(at(0))
    store.unread = [ROW.rule, "g/Other"]
    incoming.release(at(60))
    assert incoming.flush_due(at(60)) == []
    store.unread = ["g/Other"]
    incoming.release(at(61))
    (message,) = incoming.flush_due(at(61))
    assert message.alerts[0].is_late


RULE = InhibitRule.model_validate({"source_matchers": ["alertname=A"], "target_matchers": ["x=y"]})


def test_alert_that_no_route_takes_inhibits_after_a_restart() -> None:
    grouping = make_grouping({"receiver": "r", "matchers": ["x=y"]}, muting=Muting([RULE]))
    restart(Store(ROW, RuleWaits()), grouping)
    assert grouping.muting.find_inhibitor({"x": "y"}) is not None


@pytest.mark.parametrize(
    ("where", "history"),
    [(None, None), (timedelta(seconds=30), None), (timedelta(seconds=30), "waiting")],
)
def test_alert_inhibits_while_its_message_waits_unless_its_condition_is_unknown(
    where: timedelta | None, history: str | None
) -> None:
    grouping = make_grouping({"receiver": "r", "group_wait": "0s"}, muting=Muting([RULE]))
    store = Store(replace(ROW, history=history), replace(WAITS, where=where))
    incoming = Incoming(store, grouping, HOUR)  # type: ignore[arg-type]
    incoming.follow(at(0))
    assert incoming.has_held
    assert (grouping.muting.find_inhibitor({"x": "y"}) is not None) is (where is None)
    store.change(state="resolved", ends_at=at(1), updated_at=at(1))
    incoming.follow(at(1))
    incoming.flush_due(at(1))
    assert grouping.muting.find_inhibitor({"x": "y"}) is None
