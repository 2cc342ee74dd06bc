"""Rows over which rules have no verdict, and the list of rules that counts them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from moirae.runtime import connect_database
from sql.rules import DeploymentGateway, LostVerdictGateway, RuleGateway
from tests.property.world import workspace

pytestmark = pytest.mark.services

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def _row(number: int, version: str = "1") -> dict[str, Any]:
    return {
        "rule": "g/A",
        "version": version,
        "stream": "s",
        "ts": TIME.isoformat(),
        "row_hash": str(number),
        "row": {"text": "a\0b", "n": number},
        "reason": "too many steps",
    }


def test_lost_rows_are_stored_once_and_counted_by_rule(public_folder: Path) -> None:
    with connect_database(workspace(public_folder), "tests") as connection:
        gateway = LostVerdictGateway(connection)
        rules, deployments = RuleGateway(connection), DeploymentGateway(connection)
        for name, enabled in (("g/A", True), ("g/B", False)):
            rules.put(name, "1", {"rule": {"rules": [{"enabled": enabled}]}})
        deployments.start("g/A", "1", None, undecided_seconds=0)
        gateway.add([_row(1), _row(2), _row(1)])
        gateway.add([_row(2), _row(3, "0")])
        (counts,) = gateway.count_by_rule()
        assert (counts.rule, counts.rows, counts.first_ts) == ("g/A", 2, TIME)
        assert gateway.count_by_rule(datetime.now(UTC)) == []
        assert [row.row["text"] for row in gateway.list_newest("g/A", 1)] == ["a␀b"]
        assert {row.row_hash for row in gateway.list_known()} == {"1", "2"}
        gateway.delete_oldest("g/A", "1", retained=1)
        assert gateway.count_by_rule()[0].rows == 1

        listed = rules.list_page(search=None, state=None, by_cost=False, limit=None, offset=0)
        states = [(row.rule, row.state, row.lost) for row in listed]
        assert states == [("g/A", "running", 1), ("g/B", "disabled", 0)]
        page = rules.list_page(search="G/", state=None, by_cost=False, limit=1, offset=1)
        assert [row.rule for row in page] == ["g/B"]
        running = rules.list_page(search="a", state="running", by_cost=True, limit=5, offset=0)
        assert [row.rule for row in running] == ["g/A"]

        deployments.quarantine_losing("g/A", "1", "lost too many")
        (losing,) = deployments.list_losing()
        assert (losing.rule, losing.error) == ("g/A", "lost too many")
        assert deployments.resume(["g/A"]) == ["g/A"]
        assert deployments.list_losing() == []
