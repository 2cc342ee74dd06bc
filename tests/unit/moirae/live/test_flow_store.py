"""Figures are written when there are new ones, else once a minute."""

from unittest.mock import Mock

import pytest

from moirae.evaluation import RuleCost
from moirae.live import flow_store
from moirae.live.flow_store import FlowStore
from sql.reports import FlowRow

_MEMORY = FlowRow("stream", "cpu", bytes=700)
_ROWS = FlowRow("stream", "cpu", rows=3, bytes=700)


def test_unchanged_figures_are_written_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    flows, candidates, timer = Mock(), Mock(), Mock()
    monkeypatch.setattr(flow_store, "FlowGateway", lambda connection: flows)
    monkeypatch.setattr(flow_store, "RuleCandidateGateway", lambda connection: candidates)
    monkeypatch.setattr(flow_store, "Timer", lambda interval: timer)
    store = FlowStore(Mock())
    timer.is_due.return_value = False
    store.add([_MEMORY], {})
    flows.add.assert_not_called()
    store.add([_ROWS], {"g/A": RuleCost(0.5, 10, 2)})
    flows.add.assert_called_once_with([_ROWS])
    candidates.add.assert_called_once()
    flows.delete_old.assert_not_called()
    timer.is_due.return_value = True
    store.add([_MEMORY], {})
    flows.add.assert_called_with([_MEMORY])
    flows.delete_old.assert_called_once_with()
    timer.restart.assert_called_once_with()
