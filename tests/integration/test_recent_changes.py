"""What changed before an alert: at the server, from the command line, and without anything declared."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api_data import COUNT, RULES, WORKSPACE, event_id, fill
from tests.recent_changes import DECLARED, archive_changes
from tests.served import Served, serve

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE.replace("rules:", DECLARED, 1), RULES) as running:
        fill(running.connection)
        archive_changes(running)
        yield running


@pytest.fixture(scope="module")
def changes(served: Served) -> dict[str, Any]:
    answer = served.ask("GET", f"/api/v1/events/{event_id(COUNT - 1)}/changes", "viewer")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_changes_near_an_alert_are_listed_with_what_is_known_of_them(
    changes: dict[str, Any],
) -> None:
    listed = {change["what"]: change for change in changes["changes"]}
    assert listed.keys() == {"web 2.0", "db 7", "dns"}
    assert [listed[what]["steps"] for what in ("web 2.0", "db 7", "dns")] == [0, 1, 0]
    assert listed["dns"]["place"] == {}
    assert listed["web 2.0"]["similar"] == 1
    assert listed["web 2.0"]["similar_with_change"] == 1
    assert listed["db 7"]["similar_with_change"] == 0
    assert listed["web 2.0"]["sentence"].startswith(
        "web 2.0 (host host4) 3m before; so before 1 of the 1 most similar alerts"
    )


def test_streams_without_rows_are_named(changes: dict[str, Any]) -> None:
    assert changes["streams"] == ["deploys", "flags"]
    assert changes["unread"] == [{"stream": "flags", "reason": "nothing is archived yet"}]


def test_a_span_that_is_no_duration_is_refused(served: Served) -> None:
    path = f"/api/v1/events/{event_id(0)}/changes"
    assert served.ask("GET", path, "viewer", params={"within": "soon"}).status_code == 400
