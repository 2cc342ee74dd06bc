"""The engine reads again what has been placed once people have decided something."""

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


def test_decision_before_a_batch_of_withdrawn_alerts_is_read_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = MagicMock()
    gateway.newest_start.return_value = None
    gateway.list_placed.return_value = []
    gateway.list_contexts.return_value = []
    gateway.list_decisions.return_value = []
    monkeypatch.setattr(engine, "IncidentGateway", lambda connection: gateway)
    monkeypatch.setattr(engine, "load_topology", lambda connection, now: Topology())
    placer = IncidentEngine(MagicMock(), GroupingPolicy(), 0, lambda first, last: NearbyChanges())
    batches = [(alert(1), 0), (alert(2, withdrawn=True), 1), (alert(3), 1)]
    for row, last_decision in batches:
        gateway.list_unplaced.return_value = [row]
        gateway.last_decision.return_value = last_decision
        placer.run_once()
    assert gateway.list_decisions.call_count == 2
