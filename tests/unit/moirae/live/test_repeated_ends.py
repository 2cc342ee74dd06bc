"""When live processes have ended repeatedly."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from moirae.live.repeated_ends import has_ended_repeatedly

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("exits", "has_ended"),
    [
        ([("live", 70)], False),
        ([("live", 70), ("live", None)], True),
        ([("live", 70), ("recall", 70)], False),
        ([("live", 75), ("live", 75), ("live", 70)], False),
    ],
)
def test_ends_of_outages_and_other_processes_do_not_count(
    exits: list[tuple[str, int | None]], has_ended: bool
) -> None:
    rows = [SimpleNamespace(role=role, exit_code=code) for role, code in exits]
    gateway: Any = SimpleNamespace(list_recent=lambda _: rows)
    assert has_ended_repeatedly(gateway, NOW) is has_ended
