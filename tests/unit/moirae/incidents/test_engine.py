"""The engine reads again what has been placed once people have decided something."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import MagicMock
from uuid import UUID

import pytest

from moirae.incidents import GroupingPolicy, IncidentEngine, engine
from moirae.incidents.changes import NearbyChanges
from moirae.topology import Topology
from sql.alerts.incidents import UnplacedAlertRow


def alert(number: int, *, withdrawn: bool = False) -> UnplacedAlertRow:
    return UnplacedAlertRow(
        id=UUID(int=number),
        eid=UUID(int=number),
        rule="g/cpu",
        version="v",
        fingerprint=str(number),
        key={"host": f"a{number}"},
        starts_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number),
        withdrawn=withdrawn,
    )


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    gateway = MagicMock()
    gateway.last_decision.return_value = 0
    gateway.newest_start.return_value = None
    gateway.list_placed.return_value = []
    gateway.list_contexts.return_value = []
    gateway.list_decisions.return_value = []
    monkeypatch.setattr(engine, "IncidentGateway", lambda connection: gateway)
    monkeypatch.setattr(engine, "load_topology", lambda connection, now: Topology())
    return gateway


def test_decision_before_a_batch_of_withdrawn_alerts_is_read_with_the_next(
    gateway: MagicMock,
) -> None:
    placer = IncidentEngine(MagicMock(), GroupingPolicy(), 0, lambda first, last: NearbyChanges())
    batches = [(alert(1), 0), (alert(2, withdrawn=True), 1), (alert(3), 1)]
    for row, last_decision in batches:
        gateway.list_unplaced.return_value = [row]
        gateway.last_decision.return_value = last_decision
        placer.run_once()
    assert gateway.list_decisions.call_count == 2


def test_changed_policy_places_the_next_alerts(gateway: MagicMock) -> None:
    placer = IncidentEngine(MagicMock(), GroupingPolicy(), 0, lambda first, last: NearbyChanges())
    same_host = [replace(alert(number), key={"host": "a"}) for number in (1, 2, 3)]
    loads = []
    for row, within in zip(same_host, (300, 300, 30), strict=True):
        placer.change_policy(GroupingPolicy(0.4, within * 1_000_000), 0)
        gateway.list_unplaced.return_value = [row]
        placer.run_once()
        loads.append(gateway.list_placed.call_count)
    first, second, third = (call.args[0][0].incident for call in gateway.place.call_args_list)
    assert first == second != third
    assert loads == [1, 1, 2], "what was placed is read again for another policy alone"


def test_changes_that_were_not_read_are_said(gateway: MagicMock) -> None:
    nearby = NearbyChanges(unread=["deploys", "flags"])
    placer = IncidentEngine(MagicMock(), GroupingPolicy(), 0, lambda first, last: nearby)
    gateway.list_unplaced.return_value = [alert(1)]
    placer.run_once()
    (placement,) = gateway.place.call_args.args[0]
    assert placement.reason == (
        "the first alert; changes of deploys, flags not compared: more than 100,000 rows to read"
    )
