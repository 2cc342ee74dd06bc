"""Posted alerts in the database: their rules, events, alerts and ends."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import orjson
import pyarrow as pa
import pytest

import sql
from archiver.delta import StreamTable
from archiver.ingest import IngestResult
from archiver.ingest.engines import ArchivedRows
from archiver.times import to_micros
from moirae.config import EXTERNAL_ALERTS, stream_schema
from moirae.config.external_alerts import external_alerts_stream
from moirae.config.settings import Settings
from moirae.deployments import ExternalRules, RuleRegistry, external_rules
from moirae.evaluation.plan import ActiveRule
from moirae.live.external_alerts import ExternalAlerts
from moirae.rules import make_external_definition
from moirae.runtime import connect_database
from moirae.server.protocols.alerts import convert_alerts
from tests.property.world import workspace

pytestmark = pytest.mark.services

START = datetime(2026, 1, 1, tzinfo=UTC)
_SCHEMA = stream_schema(EXTERNAL_ALERTS, external_alerts_stream())


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    return workspace(public_folder).model_copy(update={"resolve_timeout": timedelta(minutes=2)})


class Receiver:
    """What the live process does with posts, without the archive. Times are seconds from START."""

    def __init__(self, settings: Settings, connection: sql.Connection, limit: int = 3) -> None:
        self.connection = connection
        self.settings = settings
        self.reloads = 0
        self.is_killed = False
        self.archived: list[pa.Table] = []
        self._rules: dict[str, ActiveRule] = {}
        self.alerts = ExternalAlerts(
            connection,
            cast(StreamTable, self),
            ExternalRules(connection, limit),
            lambda name: self._rules.get(name),
            self.reload,
            settings.resolve_timeout,
            self.heartbeat,
        )
        self.reload()

    def heartbeat(self) -> None:
        if self.is_killed:
            raise RuntimeError("killed")

    def reload(self) -> None:
        self.reloads += 1
        for definition in RuleRegistry(self.connection).desired_rules():
            rule = ActiveRule.of_workspace(definition, self.settings)
            self._rules[rule.name] = rule

    # The table of the stream

    schema = _SCHEMA

    def data_files(self, _: Any) -> list["Receiver"]:
        return [self]

    path = "all"

    def read_on_time(self, _: str, __: Any) -> pa.Table:
        return pa.concat_tables(self.archived)

    # What is done, and what is seen

    def post(self, at: float, *alerts: Mapping[str, Any]) -> None:
        """Post alerts: labels, and `starts` and `ends` in seconds."""
        body = []
        for alert in alerts:
            alert = dict(alert)
            times: dict[str, Any] = {}
            for field, key in (("startsAt", "starts"), ("endsAt", "ends")):
                if key in alert:
                    times[field] = _moment(alert.pop(key)).isoformat()
            annotations = {"summary": alert.pop("summary", "")}
            body.append({"labels": alert, "annotations": annotations, **times})
        lines = convert_alerts(orjson.dumps(body), _moment(at)).lines.splitlines()
        rows = [_parse_times(orjson.loads(line)) for line in lines]
        table = pa.Table.from_pylist(rows)
        self.archived.append(table)
        self.alerts.record(IngestResult({EXTERNAL_ALERTS: ArchivedRows(len(table), on_time=table)}))

    def show(self, rule: str) -> list[tuple[Any, ...]]:
        """The alerts of a rule: instance, state, start, end, reason and summary."""
        statement = (
            "SELECT labels->>'instance', state, extract(epoch FROM starts_at - %(start)s)::int,"
            " extract(epoch FROM ends_at - %(start)s)::int, end_reason, annotations->>'summary'"
            " FROM alerts WHERE rule = %(rule)s ORDER BY starts_at, 1"
        )
        return self.connection.execute(statement, {"start": START, "rule": rule}).fetchall()

    def count(self, table: str) -> int:
        row = self.connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


def _moment(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _parse_times(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("ts", "starts_at", "ends_at"):
        if row[name] is not None:
            row[name] = datetime.fromisoformat(row[name])
    return row


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    with connect_database(settings, "tests") as connection:
        tables = "alerts, events, contexts, rules, deployments, external_rules, external_alerts"
        connection.execute(f"TRUNCATE {tables} CASCADE".encode())
        connection.execute("UPDATE external_progress SET read_to = NULL")
        yield Receiver(settings, connection)


UP = {"alertname": "Up", "instance": "a"}


def test_alert_fires_moves_and_ends(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5, "ends": 250, "summary": "one"})
    assert receiver.show("external/Up") == [("a", "firing", 5, None, None, "one")]
    receiver.post(70, {**UP, "starts": 5, "ends": 310, "summary": "two"})
    assert receiver.show("external/Up") == [("a", "firing", 5, None, None, "two")]
    receiver.post(90, {**UP, "starts": 5, "ends": 88, "summary": "two"})
    assert receiver.show("external/Up") == [("a", "resolved", 5, 88, "ended", "two")]
    assert receiver.count("events") == 1


def test_event_is_settled_with_its_labels_as_key(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5})
    row = receiver.connection.execute("SELECT settled, key, attributes FROM events").fetchone()
    labels = '{"alertname":"Up","instance":"a"}'
    assert row == (True, UP, {**UP, "labels": labels})


def test_silent_alert_ends_by_the_clock(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5, "ends": 250}, {**UP, "instance": "b", "starts": 5})
    receiver.alerts.end_silent(_moment(129))
    assert [row[1] for row in receiver.show("external/Up")] == ["firing", "firing"]
    receiver.alerts.end_silent(_moment(251))
    assert receiver.show("external/Up") == [
        ("a", "resolved", 5, 250, "no_data", ""),
        ("b", "resolved", 5, 130, "no_data", ""),
    ]


def test_alert_that_is_posted_again_after_silence_fires_again(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5, "ends": 250})
    receiver.alerts.end_silent(_moment(300))
    receiver.post(400, {**UP, "starts": 5, "ends": 640})
    assert receiver.show("external/Up") == [("a", "firing", 5, None, None, "")]


def test_two_servers_are_one_alert(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5, "ends": 250})
    receiver.post(12, {**UP, "starts": 7, "ends": 252})
    receiver.post(60, {**UP, "starts": 5, "ends": 58})
    assert receiver.show("external/Up") == [("a", "firing", 5, None, None, "")]
    receiver.post(61, {**UP, "starts": 7, "ends": 60})
    assert receiver.show("external/Up") == [("a", "resolved", 5, 60, "ended", "")]


def test_alerts_of_one_post_may_be_about_one_alert(receiver: Receiver) -> None:
    ended = {**UP, "starts": 5, "ends": 8}
    receiver.post(10, {**UP, "starts": 5, "ends": 250}, ended, {**UP, "starts": 9, "ends": 250})
    assert receiver.show("external/Up") == [
        ("a", "resolved", 5, 8, "ended", ""),
        ("a", "firing", 9, None, None, ""),
    ]


def test_names_beyond_the_limit_share_a_rule(receiver: Receiver) -> None:
    receiver.post(10, *({"alertname": f"N{n}", "instance": "a", "starts": 5} for n in range(6)))
    assert len(receiver.show("external/other")) == 3
    raised = Receiver(receiver.settings, receiver.connection, limit=10)
    raised.post(20, {"alertname": "N5", "instance": "b", "starts": 15})
    raised.post(20, {"alertname": "New", "instance": "b", "starts": 15})
    raised.post(20, {"instance": "nameless", "starts": 15})
    assert len(raised.show("external/other")) == 5
    assert len(raised.show("external/New")) == 1


def test_limit_of_zero_leaves_one_rule(receiver: Receiver) -> None:
    receiver = Receiver(receiver.settings, receiver.connection, limit=0)
    receiver.post(10, {**UP, "starts": 5}, {"alertname": "other", "instance": "b", "starts": 5})
    assert len(receiver.show("external/other")) == 2


def test_rule_that_a_file_declares_takes_its_alerts_beyond_the_limit(receiver: Receiver) -> None:
    receiver = Receiver(receiver.settings, receiver.connection, limit=0)
    receiver.post(10, {**UP, "starts": 5, "ends": 250})
    RuleRegistry(receiver.connection).apply([make_external_definition("Up")])
    receiver.reload()
    receiver.post(20, {**UP, "instance": "b", "starts": 15})
    receiver.post(30, {"alertname": "Down", "instance": "b", "starts": 15})
    assert [row[0] for row in receiver.show("external/Up")] == ["b"]
    assert [row[0] for row in receiver.show("external/other")] == ["a", "b"]


def test_rules_stay_within_the_limit_when_no_more_names_are_stored(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_rules, "_MAX_STORED_NAMES", 4)
    names = [f"N{number}" for number in range(9)]
    receiver.post(10, *({"alertname": name, "starts": 5} for name in names))
    raised = Receiver(receiver.settings, receiver.connection, limit=100)
    raised.post(20, *({"alertname": name, "starts": 15} for name in [*names, "New"]))
    rules = RuleRegistry(receiver.connection).desired_rules()
    assert len(rules) == 4
    assert receiver.count("external_rules") == 4


def test_name_may_be_long(receiver: Receiver) -> None:
    # Not compressible: an index takes 2.7 kB of a text.
    long = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(200))
    receiver.post(10, {"alertname": long, "starts": 5}, {"alertname": long[:-1], "starts": 5})
    receiver.post(20, {"alertname": long, "starts": 15})
    rules = [rule.name for rule in RuleRegistry(receiver.connection).desired_rules()]
    assert len(rules) == 2
    assert [len(receiver.show(rule)) for rule in rules] == [1, 1]


def test_known_names_start_no_rules(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5})
    reloads = receiver.reloads
    receiver.post(20, {**UP, "starts": 5})
    assert receiver.reloads == reloads


def test_rules_of_posted_alerts_stay_when_files_are_applied(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5})
    registry = RuleRegistry(receiver.connection)
    assert registry.apply([]) == []
    assert [rule.name for rule in registry.desired_rules()] == ["external/Up"]


def test_rows_that_are_no_posts_are_left_out(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5})
    (table,) = receiver.archived
    (row,) = table.to_pylist()
    bad_rows: list[dict[str, Any]] = [{"labels": text} for text in ("{", "[]", '{"a": 1}', None)]
    bad_rows.append({"starts_at": None})
    rows = [{**row, **changed} for changed in bad_rows]
    receiver.archived.append(pa.Table.from_pylist(rows, table.schema))
    receiver.alerts.recover()
    assert receiver.count("alerts") == 1


def test_posts_that_were_not_recorded_are_recorded_at_the_start(receiver: Receiver) -> None:
    receiver.post(10, {**UP, "starts": 5, "ends": 250})
    receiver.post(70, {**UP, "starts": 5, "ends": 68}, {**UP, "instance": "b", "starts": 60})
    recorded = receiver.show("external/Up")
    receiver.connection.execute("TRUNCATE alerts, events CASCADE")
    receiver.connection.execute("UPDATE external_progress SET read_to = NULL")
    receiver.alerts.recover()
    assert receiver.show("external/Up") == recorded
    receiver.alerts.recover()
    assert receiver.show("external/Up") == recorded
    assert receiver.count("events") == 2
    read_to = receiver.connection.execute("SELECT read_to FROM external_progress").fetchone()
    assert read_to is not None
    assert to_micros(read_to[0]) == to_micros(_moment(70))


def test_many_posts_are_recorded_in_parts(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.live.external_alerts._MAX_RECORDED", 2)
    instances = [f"i{number}" for number in range(5)]
    receiver.is_killed = True
    with pytest.raises(RuntimeError, match="killed"):
        receiver.post(10, *({**UP, "instance": name, "starts": 5} for name in instances))
    assert [row[0] for row in receiver.show("external/Up")] == instances[:2]
    receiver.is_killed = False
    receiver.alerts.recover()
    assert [row[0] for row in receiver.show("external/Up")] == instances
    assert receiver.count("events") == 5
