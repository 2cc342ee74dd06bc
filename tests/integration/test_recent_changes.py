"""What changed before an alert: at the server, from the command line, and without anything declared."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from archiver.delta import StreamSchema, StreamTable
from moirae.runtime.storage import open_storage
from tests.api_data import COUNT, RULES, START, WORKSPACE, event_id, fill
from tests.served import Served, serve

pytestmark = pytest.mark.services

MINUTE = timedelta(minutes=1)
COLUMNS = {"ts": "timestamp", "what": "string", "host": "string", "service": "string"}
DECLARED = """
  deploys:
    columns: {ts: timestamp, what: string, host: string, service: string}
    time: ts
    source: {http: true}
    changes: {what: what, where: {host: host, service: service}, steps: 1}
  flags:
    columns: {ts: timestamp, what: string, host: string}
    time: ts
    source: {http: true}
    changes: {what: what, where: {host: host}}
rules:"""
ROWS = [
    (START - 300 * MINUTE, "web 1.0", "host0", None),
    (START - 2 * MINUTE, "web 1.1", "host0", None),
    (START + MINUTE, "web 2.0", "host4", None),
    (START + 2 * MINUTE, "db 7", None, "db"),
    (START + 3 * MINUTE, "dns", None, None),
    (START + 3 * MINUTE, "web 2.0", "host3", None),
    (START + 5 * MINUTE, "web 2.1", "host4", None),
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE.replace("rules:", DECLARED, 1), RULES) as running:
        fill(running.connection)
        running.connection.execute(
            "INSERT INTO relation_versions (relation, key, valid_from, row) VALUES"
            """ ('topology', '["host4"]', '0001-01-01T00:00:00Z', '{"source": "host4", "target": "db"}')"""
        )
        yield running


@pytest.fixture(scope="module")
def changes(served: Served) -> dict[str, Any]:
    schema = StreamSchema("deploys", COLUMNS, "ts", None, (), MINUTE, MINUTE)
    table = StreamTable(open_storage(served.settings), schema)
    table.append(schema_rows(schema), 1)
    answer = served.ask("GET", f"/api/v1/events/{event_id(COUNT - 1)}/changes", "viewer")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def schema_rows(schema: StreamSchema) -> Any:
    import pyarrow as pa

    arrow_schema = schema.arrow_schema()
    rows = []
    for number, values in enumerate(ROWS):
        own = {"_late": False, "_unit": 1, "_line": number, "_append": 1, "chunk": 0}
        own |= {"_id": number.to_bytes(16, "big"), "_hash": number}
        rows.append(
            dict.fromkeys(arrow_schema.names) | own | dict(zip(COLUMNS, values, strict=True))
        )
    return pa.Table.from_pylist(rows, arrow_schema)


def test_changes_near_an_alert_are_listed_with_what_is_known_of_them(
    changes: dict[str, Any],
) -> None:
    listed = {change["what"]: change for change in changes["changes"]}
    assert listed.keys() == {"web 2.0", "db 7", "dns"}
    assert [listed[what]["steps"] for what in ("web 2.0", "db 7", "dns")] == [0, 1, 0]
    assert listed["dns"]["place"] == {}
    assert changes["similar"] == 1
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
