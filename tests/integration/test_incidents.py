"""Incidents: placed once, decided by people for good, resolved and recalled as one."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

import sql
from moirae.cli import app
from moirae.config.settings import load_settings_from_environment
from moirae.errors import NotFound, UsageError
from moirae.incidents import GroupingPolicy, IncidentEngine
from moirae.incidents.changes import NearbyChange, NearbyChanges
from moirae.runtime import database
from moirae.services import LocalWorkspace
from moirae.services.operations import incidents
from moirae.services.operations.alerts import Comment, ResolutionBody
from moirae.services.operations.incidents import (
    IncidentDetails,
    IncidentQuery,
    MergeBody,
    SimilarQuery,
    SplitBody,
)
from sql.alerts import IncidentGateway
from sql.archive import RetentionGateway
from tests.api_data import RULES, START, WORKSPACE
from tests.workspaces import workspace

NO_WAIT = timedelta(0)


@pytest.fixture(scope="module")
def services() -> Iterator[LocalWorkspace]:
    with workspace(WORKSPACE, RULES) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "tests") as connection:
            yield LocalWorkspace(settings=settings, connection=connection, author="ada", via="api")


@pytest.fixture(autouse=True)
def connection(services: LocalWorkspace) -> Iterator[Connection[Any]]:
    yield services.connection
    for table in ("alerts", "events", "contexts", "incidents", "incident_decisions"):
        services.connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]


def alert_id(number: int) -> UUID:
    return UUID(int=(0x1000 + number) << 112)


def put_alert(
    connection: Connection[Any],
    number: int,
    *,
    rule: str = "g/cpu",
    host: str = "a1",
    minutes: float = 0,
    context: Mapping[str, str] | None = None,
    fired: bool = True,
) -> UUID:
    """An alert that fires. `number` gives its ID."""
    values = {
        "id": alert_id(number),
        "rule": rule,
        "key": Jsonb({"host": host}),
        "fingerprint": host,
        "at": START + timedelta(minutes=minutes),
        "fired_at": START + timedelta(minutes=minutes) if fired else None,
        "state": "firing" if fired else "pending",
        "contexts": Jsonb({"own": [dict(context or {})]}),
    }
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, fired_at,"
        " last_at, events, raised_at) VALUES (%(id)s, %(id)s, %(rule)s, 'v', %(fingerprint)s, %(key)s, '{}', '{}', %(state)s,"
        " %(at)s, %(fired_at)s, %(at)s, 1, clock_timestamp())",
        values,
    )
    if context is not None:
        connection.execute(
            "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled)"
            " VALUES (%(rule)s, 'v', %(id)s, %(at)s, %(contexts)s, '{}', true)",
            values,
        )
    return alert_id(number)


def make_engine(connection: sql.Connection, *changes: NearbyChange) -> IncidentEngine:
    return IncidentEngine(connection, GroupingPolicy(), 1, lambda *_: NearbyChanges(changes))


def place(connection: sql.Connection) -> dict[UUID, UUID]:
    """Place all alerts; the incident of each."""
    make_engine(connection).run_to_end()
    return list_placed(connection)


def list_placed(connection: sql.Connection) -> dict[UUID, UUID]:
    return dict(connection.execute("SELECT alert_id, incident FROM incident_alerts").fetchall())


def list_shown(services: LocalWorkspace, **values: Any) -> list[UUID]:
    page = incidents.list_incidents(services, IncidentQuery.model_validate(values))
    return [row.id for row in page.incidents]


def show(services: LocalWorkspace, alert: UUID) -> IncidentDetails:
    return incidents.show_incident(services, str(alert))


def test_alerts_near_in_time_and_place_are_one_incident(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    first = put_alert(connection, 1)
    second = put_alert(connection, 2, rule="g/disk", minutes=1)
    other = put_alert(connection, 3, host="b9", minutes=1)
    placed = place(connection)
    assert placed[first] == placed[second] != placed[other]
    assert list_shown(services) == [placed[first]]
    assert list_shown(services, active=True, state="proposed") == [placed[first]]
    assert list_shown(services, state="confirmed") == []
    assert list_shown(services, alert=str(second)) == [placed[first]]
    assert list_shown(services, alert=str(other)) == [], "it is alone"
    details = show(services, second)
    assert [member.alert_id for member in details.members] == [first, second]
    assert details.members[1].reason.endswith("1 place in common: host=a1 (overlap 1.00)")
    assert (details.alerts, details.firing, details.rules) == (2, 2, ["g/cpu", "g/disk"])


def test_contexts_and_changes_make_incidents_of_distant_places(
    connection: Connection[Any],
) -> None:
    context = {"slow": "db", "error": "timeout"}
    same_context = [
        put_alert(connection, number, host=f"h{number}", context=context) for number in (1, 2)
    ]
    same_change = [put_alert(connection, number, host=f"h{number}") for number in (3, 4)]
    micros = int(START.timestamp() * 1_000_000) - 60_000_000
    changes = [NearbyChange(micros, "deploys v2", {"host": host}) for host in ("h3", "h4")]
    make_engine(connection, *changes).run_to_end()
    placed = list_placed(connection)
    assert len({placed[alert] for alert in same_context}) == 1
    assert len({placed[alert] for alert in same_change}) == 1
    assert len(set(placed.values())) == 2


def test_alert_waits_for_its_context_for_a_while(connection: Connection[Any]) -> None:
    alert = put_alert(connection, 1)
    engine = make_engine(connection)
    engine.run_once(timedelta(hours=1))
    assert list_placed(connection) == {}
    engine.run_once(NO_WAIT)
    assert alert in list_placed(connection)


def test_pending_and_withdrawn_alerts_are_in_no_incident(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    pending = put_alert(connection, 1, fired=False)
    withdrawn = put_alert(connection, 2)
    connection.execute("UPDATE alerts SET state = 'withdrawn' WHERE id = %s", [withdrawn])
    kept = put_alert(connection, 3)
    assert set(place(connection)) == {kept}
    connection.execute("UPDATE alerts SET fired_at = starts_at WHERE id = %s", [pending])
    assert set(place(connection)) == {kept, pending}
    connection.execute("UPDATE alerts SET history = 'withdrawn' WHERE id = %s", [kept])
    assert show(services, pending).alerts == 1


def test_each_alert_is_placed_once_whenever_the_process_ends(
    connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        put_alert(connection, number, host=f"h{number % 2}", minutes=number)
    engine = make_engine(connection)
    with monkeypatch.context() as patch:
        patch.setattr(IncidentGateway, "place", _fail)
        with pytest.raises(RuntimeError, match="killed"):
            engine.run_once(NO_WAIT)
    assert list_placed(connection) == {}
    engine.run_to_end()
    placed = list_placed(connection)
    assert len(placed) == 6
    assert len(set(placed.values())) == 2
    engine.run_to_end()
    assert place(connection) == placed


def _fail(*_: object) -> None:
    raise RuntimeError("killed")


def test_another_process_goes_on_with_incidents(connection: Connection[Any]) -> None:
    first = put_alert(connection, 1)
    place(connection)
    second = put_alert(connection, 2, minutes=2)
    placed = place(connection)
    assert placed[first] == placed[second]


def test_a_split_lasts_for_later_alerts(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    first = put_alert(connection, 1)
    second = put_alert(connection, 2, rule="g/disk")
    engine = make_engine(connection)
    engine.run_to_end()
    incident = list_placed(connection)[first]
    body = SplitBody(alerts=[str(second)], text="another cause")
    details = incidents.split_incident(services, str(incident), body)
    assert [member.alert_id for member in details.members] == [second]
    assert set(list_shown(services)) == {incident, details.id}, "confirmed ones are shown"
    later = put_alert(connection, 3, rule="g/disk", minutes=1)
    other = put_alert(connection, 4, minutes=1)
    engine.run_to_end()
    placed = list_placed(connection)
    assert placed[later] == details.id
    assert placed[other] == incident
    put_alert(connection, 5, minutes=60)
    put_alert(connection, 6, rule="g/disk", minutes=60)
    placed = place(connection)
    assert placed[alert_id(5)] != placed[alert_id(6)]


def test_a_merge_lasts_for_later_alerts(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    first = put_alert(connection, 1)
    second = put_alert(connection, 2, host="b9")
    engine = make_engine(connection)
    engine.run_to_end()
    merged = list_placed(connection)[second]
    details = incidents.merge_incidents(services, str(first), MergeBody(others=[str(second)]))
    assert details.state == "confirmed"
    assert details.alerts == 2
    assert incidents.show_incident(services, str(merged)).id == details.id, "it leads there"
    put_alert(connection, 3, minutes=60)
    put_alert(connection, 4, host="b9", minutes=61)
    engine.run_to_end()
    placed = list_placed(connection)
    assert placed[alert_id(3)] == placed[alert_id(4)] != details.id
    assert show(services, alert_id(4)).members[1].reason.startswith("ada merged alerts of")


def test_decisions_are_listed_with_their_authors(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    put_alert(connection, 1)
    put_alert(connection, 2, rule="g/disk")
    place(connection)
    details = incidents.confirm_incident(services, str(alert_id(1)), Comment(text="the switch"))
    assert details.state == "confirmed"
    assert [(entry.kind, entry.author, entry.comment) for entry in details.decisions] == [
        ("confirm", "ada", "the switch")
    ]


def test_all_alerts_of_an_incident_are_resolved_at_once(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    put_alert(connection, 1)
    put_alert(connection, 2, rule="g/disk")
    place(connection)
    body = ResolutionBody(text="replaced the switch", tag="switch")
    assert len(incidents.resolve_incident(services, str(alert_id(1)), body)) == 2
    details = show(services, alert_id(1))
    assert (details.resolved, details.alerts) == (2, 2)
    assert details.resolved_at is not None


def test_incidents_that_are_not_resolved_are_listed(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    for number in range(4):
        put_alert(connection, number, rule=f"g/r{number % 2}", host=f"h{number // 2}")
    placed = place(connection)
    incidents.resolve_incident(services, str(alert_id(0)), ResolutionBody(text="restarted"))
    assert list_shown(services, unresolved=True) == [placed[alert_id(2)]]
    connection.execute("DELETE FROM alert_notes WHERE alert_id = %s", [alert_id(1)])
    assert set(list_shown(services, unresolved=True)) == set(placed.values()), "one of two is left"


def test_similar_incidents_come_with_what_fixed_them(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    def put_incident(number: int, minutes: float, cause: str) -> UUID:
        for offset, rule in enumerate(("g/cpu", "g/disk")):
            put_alert(
                connection,
                number + offset,
                rule=rule,
                host=f"h{number}",
                minutes=minutes + offset,
                context={"cause": cause},
            )
        return place(connection)[alert_id(number)]

    past = put_incident(10, 0, "disk")
    put_incident(20, 60, "net")
    put_incident(30, 120, "mail")
    incidents.resolve_incident(
        services, str(past), ResolutionBody(text="grew the volume", tag="grow")
    )
    newest = put_incident(40, 180, "disk")
    similar = incidents.list_similar_incidents(services, str(newest), SimilarQuery(limit=1))
    assert [entry.id for entry in similar] == [past]
    assert similar[0].shared[0] == "cause=disk"
    (fix,) = similar[0].fixes
    assert (fix.tag, fix.text, fix.alerts) == ("grow", "grew the volume", 2)
    result = CliRunner().invoke(
        app, ["incidents", "similar", str(newest), "--workspace", str(services.settings.file)]
    )
    assert "grow" in result.output


def test_pages_of_incidents(services: LocalWorkspace, connection: Connection[Any]) -> None:
    for number in range(3):
        put_alert(connection, 2 * number, host=f"h{number}", minutes=60 * number)
        put_alert(connection, 2 * number + 1, rule="g/disk", host=f"h{number}", minutes=60 * number)
    place(connection)
    page = incidents.list_incidents(services, IncidentQuery(limit=2, count=True))
    following = incidents.list_incidents(services, IncidentQuery(limit=2, cursor=page.next))
    starts = [row.starts_at for row in [*page.incidents, *following.incidents]]
    assert starts == [START + timedelta(minutes=60 * number) for number in (2, 1, 0)]
    assert (page.total, following.next) == (3, None)


def test_unknown_and_impossible_requests_are_refused(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    put_alert(connection, 1)
    put_alert(connection, 2, rule="g/disk")
    put_alert(connection, 3, host="b9")
    place(connection)
    with pytest.raises(NotFound, match="no incident 'ffff'"):
        incidents.show_incident(services, "ffff")
    with pytest.raises(UsageError, match="is not of incident"):
        incidents.split_incident(services, str(alert_id(1)), SplitBody(alerts=[str(alert_id(3))]))
    everything = SplitBody(alerts=[str(alert_id(1)), str(alert_id(2))])
    with pytest.raises(UsageError, match="leave out those that remain"):
        incidents.split_incident(services, str(alert_id(1)), everything)
    with pytest.raises(UsageError, match="named twice"):
        incidents.merge_incidents(services, str(alert_id(1)), MergeBody(others=[str(alert_id(2))]))


def test_incidents_end_with_their_alerts(connection: Connection[Any]) -> None:
    put_alert(connection, 1)
    place(connection)
    retention = RetentionGateway(connection)
    retention.delete_incidents(NO_WAIT)
    assert connection.execute("SELECT count(*) FROM incidents").fetchone() == (1,)
    connection.execute("DELETE FROM alerts")
    retention.delete_incidents(timedelta(hours=1))
    assert connection.execute("SELECT count(*) FROM incidents").fetchone() == (1,)
    retention.delete_incidents(NO_WAIT)
    assert connection.execute("SELECT count(*) FROM incidents").fetchone() == (0,)
