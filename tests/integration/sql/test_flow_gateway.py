"""Figures of the last minutes."""

from pathlib import Path

import pytest

from moirae.runtime import connect_database
from sql.reports import FlowGateway, FlowRow
from sql.stages import RowRevisionGateway
from tests.property.world import workspace

pytestmark = pytest.mark.services


def test_figures_are_added_up_and_old_ones_deleted(public_folder: Path) -> None:
    with connect_database(workspace(public_folder), "tests") as connection:
        gateway = FlowGateway(connection)
        for memory in (700, 300):
            part = FlowRow("rule", "g/A", rows=2, seconds=0.25, bytes=memory)
            gateway.add([part, part])
        connection.execute(
            "INSERT INTO flows (kind, name, since, rows)"
            " SELECT 'rule', 'g/B', now() - interval '10 minutes', 7"
        )
        change = [
            "00000000-0000-0000-0000-000000000001",
            "v",
            "2026-01-01",
            "insert",
            "1",
            {},
            None,
        ]
        RowRevisionGateway(connection).append("g/A", "norm", [change, change])  # type: ignore[list-item]
        rows = {(row.kind, row.name): row for row in gateway.list_recent()}
        assert rows == {
            ("rule", "g/A"): FlowRow("rule", "g/A", 8, 0, 1.0, 300),
            ("revisions", "g/A/norm"): FlowRow("revisions", "g/A/norm", 2),
        }
        gateway.delete_old()
        assert connection.execute(
            "SELECT DISTINCT name FROM flows WHERE kind = 'rule'"
        ).fetchall() == [("g/A",)]
        assert 1 <= gateway.get_span() <= 331
        assert (gateway.list_open_recalls(), gateway.list_settled(), gateway.list_newest()) == (
            [],
            {},
            {},
        )
