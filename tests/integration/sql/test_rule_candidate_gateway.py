"""Counts of the rows that the rule index evaluated."""

from pathlib import Path

import pytest

from moirae.runtime import connect_database
from sql.rules import CandidateCounts, RuleCandidateGateway
from tests.property.world import workspace

pytestmark = pytest.mark.services


def test_counts_of_an_hour_are_added_and_older_ones_are_deleted(public_folder: Path) -> None:
    with connect_database(workspace(public_folder), "tests") as connection:
        gateway = RuleCandidateGateway(connection)
        for _ in range(2):
            gateway.add([{"rule": "g/A", "candidates": 5, "matches": 1, "seconds": 0.5}])
        connection.execute(
            "INSERT INTO rule_candidates SELECT 'g/B', now() - interval '2 hours', 7, 7"
        )
        gateway.add([{"rule": "g/C", "candidates": 1, "matches": 0, "seconds": 0.0}])
        assert gateway.get_last_hour("g/A") == CandidateCounts(10, 2)
        assert gateway.get_last_hour("g/B") == CandidateCounts(0, 0)
        old = connection.execute("SELECT count(*) FROM rule_candidates WHERE rule = 'g/B'")
        assert old.fetchone() == (0,)
