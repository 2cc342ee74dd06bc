"""The life of a fix: tags and their names, effects of resolutions, many alerts at once, checked steps."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from typer.testing import CliRunner

from moirae.alerts import FixRecords, add_note
from moirae.cli import app
from moirae.config.settings import load_settings_from_environment
from moirae.errors import Conflict, NotFound, UsageError
from moirae.inspect.past_events import SimilarEvent, load_past_events
from moirae.runtime import database
from moirae.services import LocalWorkspace
from moirae.services.operations import alerts, fixes
from moirae.services.operations.fixes import MergedTags, ResolutionOfAlerts, TagName, TagQuery
from sql.alerts import NewAlertNote
from sql.reports import OverviewGateway
from sql.similarity import JudgementGateway
from tests.api_data import COUNT, RULE, RULES, START, WORKSPACE, alert_id, event_id, fill
from tests.workspaces import workspace


@pytest.fixture(scope="module")
def services() -> Iterator[LocalWorkspace]:
    with workspace(WORKSPACE, RULES) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "tests") as connection:
            fill(connection)
            yield LocalWorkspace(settings=settings, connection=connection, author="ada", via="api")


@pytest.fixture(autouse=True)
def connection(services: LocalWorkspace) -> Iterator[Connection[Any]]:
    yield services.connection
    services.connection.execute("DELETE FROM alert_notes")
    services.connection.execute("UPDATE alerts SET ends_at = NULL, fingerprint = eid::text")
    services.connection.execute("DELETE FROM tag_names")
    services.connection.execute("DELETE FROM shown_forecasts")


def resolve(services: LocalWorkspace, *numbers: int, **values: Any) -> None:
    body = {"alerts": [str(alert_id(number)) for number in numbers], "text": "done", **values}
    fixes.resolve_alerts(services, ResolutionOfAlerts.model_validate(body))


def list_learned(connection: Connection[Any]) -> dict[int, str | None]:
    """The tags that recalls learn from, by the number of the event."""
    rows = JudgementGateway(connection).list_tagged_corpus(RULE, "v")
    return {number: row.tag for number, row in enumerate(rows)}


def list_summaries(services: LocalWorkspace) -> dict[str, str]:
    query = TagQuery.model_validate({})
    return {tag.tag: tag.summary for tag in fixes.list_tags(services, query)}


def test_renamed_tag_is_learned_by_its_new_name_and_keeps_the_recorded_one(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    resolve(services, 0, 1, tag="reboot")
    resolve(services, 2, tag="resize", superseded_by="reboot")
    shares = '{"tags": {"reboot": [0.25, 0.5], "resize": [0.5, 0.125]}, "new_tag": [0, 0]}'
    connection.execute(
        "INSERT INTO shown_forecasts (rule, version, recall, eid, ts, shares) "
        "VALUES (%s, 'v', 'similar', %s, %s, %s)",
        [RULE, event_id(3), START, shares],
    )
    before = JudgementGateway(connection).get_feedback_state()
    renamed = fixes.rename_tag(services, TagName(tag="reboot", name="restart"))
    assert (renamed.tags, renamed.notes) == (["reboot"], 3)
    assert list_learned(connection) == {0: "restart", 1: "restart", 2: "restart", 3: None, 4: None}
    assert JudgementGateway(connection).get_feedback_state() != before
    (note,) = alerts.show_alert(services, str(alert_id(0))).notes
    assert (note.tag, note.recorded_tag) == ("restart", "reboot")

    for text in ("reboot", "restart"):
        found = alerts.list_alerts(
            services, alerts.AlertQuery.model_validate({"text": text, "all": True})
        )
        assert {alert_id(0), alert_id(1)} <= {row.id for row in found.alerts}
    resolve(services, 3, tag="reboot")  # by somebody who knows the old name only
    assert list_learned(connection)[3] == "restart"
    with pytest.raises(Conflict, match="'restart' is in use: merge 'resize' into it instead"):
        fixes.rename_tag(services, TagName(tag="resize", name="restart"))
    fixes.merge_tags(services, MergedTags(tags=["resize"], into="restart"))
    (tag,) = fixes.list_tags(services, TagQuery.model_validate({"rule": "r"}))
    assert (tag.tag, tag.alerts, sorted(tag.formerly)) == ("restart", 4, ["reboot", "resize"])
    (note,) = alerts.show_alert(services, str(alert_id(2))).notes
    assert (note.tag, note.effect, note.superseded_by) == ("restart", None, None)
    shown = connection.execute("SELECT shares->'tags' FROM shown_forecasts").fetchone()
    assert shown == ({"restart": [0.75, 0.625]},)

    fixes.rename_tag(services, TagName(tag="restart", name="reboot"))
    (note,) = alerts.show_alert(services, str(alert_id(0))).notes
    assert (note.tag, note.recorded_tag) == ("reboot", None)
    (tag,) = fixes.list_tags(services, TagQuery.model_validate({}))
    assert sorted(tag.formerly) == ["resize", "restart"]


def test_tags_that_nobody_recorded_are_not_renamed(services: LocalWorkspace) -> None:
    resolve(services, 0, tag="reboot")
    with pytest.raises(NotFound, match="no resolution has the tag 'rebot'"):
        fixes.rename_tag(services, TagName(tag="rebot", name="restart"))
    with pytest.raises(NotFound, match="no resolution has the tag 'none'; tags are: reboot"):
        fixes.merge_tags(services, MergedTags(tags=["reboot"], into="none"))
    with pytest.raises(UsageError, match="has this name already"):
        fixes.merge_tags(services, MergedTags(tags=["reboot"], into="reboot"))
    with pytest.raises(UsageError, match="must not be blank"):
        fixes.rename_tag(services, TagName(tag="reboot", name=" "))
    assert list_summaries(services).keys() == {"reboot"}


def test_last_resolution_with_an_effect_decides_what_is_learned(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    resolve(services, 0, 1, 2, 3, tag="restart")
    resolve(services, 0, effect="did not help", tag="restart")
    resolve(services, 1, effect="no action needed")
    resolve(services, 2, superseded_by="resize", tag="restart", link="https://wiki/42")
    resolve(services, 3)  # an addition without tag
    expected = {0: None, 1: "no action needed", 2: "resize", 3: "restart", 4: None}
    assert list_learned(connection) == expected
    past = load_past_events(connection, map(event_id, range(COUNT)))
    for number, tag in expected.items():
        hit = SimilarEvent(event_id(number), 1, 1.0, START, [], [], [], past[event_id(number)])
        assert hit.kind == tag
    unresolved = JudgementGateway(connection).list_unresolved(RULE, "v")
    assert [row.eid for row in unresolved] == [str(event_id(4))]
    details = alerts.show_alert(services, str(alert_id(2)))
    assert [(note.effect, note.link) for note in details.notes] == [
        (None, None),
        ("superseded", "https://wiki/42"),
    ]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"effect": "superseded"}, "superseded and the tag of what is done instead belong"),
        ({"effect": "did not help", "superseded_by": "b"}, "belong together"),
        ({"tag": "a", "superseded_by": "a"}, "cannot be superseded by itself"),
        ({"link": "javascript:alert(1)"}, "is not an address: write https://"),
        ({"link": "https://a b"}, "is not an address"),
        ({"text": " "}, "must not be empty"),
    ],
)
def test_resolutions_that_contradict_themselves_are_refused(
    services: LocalWorkspace, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        resolve(services, 0, **values)


def test_many_alerts_are_resolved_or_none(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    body = {"alerts": [str(alert_id(0)), "ffff"], "text": "restarted", "tag": "restart"}
    with pytest.raises(NotFound, match="ffff"):
        services.run(fixes.resolve_alerts, {"body": ResolutionOfAlerts.model_validate(body)})
    assert list_summaries(services) == {}
    body["alerts"] = [str(alert_id(0)), str(event_id(0)), str(alert_id(1))]
    added = fixes.resolve_alerts(services, ResolutionOfAlerts.model_validate(body))
    assert [note.alert for note in added] == [alert_id(0), alert_id(1)]


def test_fix_shows_how_often_its_alerts_came_back(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    connection.execute("UPDATE alerts SET ends_at = starts_at + interval '10 seconds'")
    connection.execute(
        "UPDATE alerts SET fingerprint = 'same' WHERE id = ANY(%s)", [[alert_id(0), alert_id(2)]]
    )
    resolve(services, 0, 1, 2, tag="restart")
    resolve(services, 3, tag="restart", effect="did not help")
    resolve(services, 4, text="blip", effect="no action needed")
    assert list_summaries(services) == {
        "restart": "worked 2 of 4 times, came back once after 2 min, did not help once",
        "no action needed": "no action needed 1 time",
    }
    forecast = {"tags": [["resize", 0.5], ["restart", 0.25]], "new_tag": 0.25}
    records = FixRecords(connection).add_to(forecast, RULE)["records"]
    assert list(records) == ["restart"] and records["restart"].startswith("worked 2 of 4 times")
    assert FixRecords(connection).add_to({"tags": [], "withheld": True}, RULE) == {
        "tags": [],
        "withheld": True,
    }
    query = TagQuery.model_validate({"within": "1m"})
    assert fixes.list_tags(services, query)[0].came_back == 0
    connection.execute("UPDATE alerts SET raised_at = now()")
    (week,) = OverviewGateway(connection).report_rules(RULE, 1)
    assert (week.alerts, week.tagged) == (COUNT, 4)  # what needed no action was for nothing


def test_steps_of_similar_alerts_are_ranked(
    services: LocalWorkspace, connection: Connection[Any]
) -> None:
    for outcome, text in (("ruled out", "ping"), ("confirmed", "df -h")):
        note = NewAlertNote(kind="checked", author="ada", text=text, outcome=outcome)
        add_note(connection, alert_id(0), note)
    steps = fixes.list_steps(services, str(alert_id(COUNT - 1)))
    assert [step.step for step in steps] == ["df -h", "ping"]
    assert steps[0].alerts == [alert_id(0)]
    assert fixes.list_steps(services, str(alert_id(1))) == []


def test_commands_resolve_list_and_rename(services: LocalWorkspace) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        options = ["--workspace", str(services.settings.file)]
        ran = CliRunner().invoke(app, [*arguments, *options])
        assert ran.exit_code == code, ran.output
        return " ".join(ran.output.split())

    also = ["--also", str(alert_id(1)), "--link", "https://wiki/1", "--tag", "reboot"]
    assert run("alerts", "resolve", str(alert_id(0)), "done", *also).count("added") == 2
    assert "recorded as" not in run("alerts", "show", str(alert_id(0)))
    assert "reboot is now restart, which 2 notes name" in run("tags", "rename", "reboot", "restart")
    assert "[restart, recorded as reboot] https://wiki/1" in run("alerts", "show", str(alert_id(0)))
    run("alerts", "resolve", str(alert_id(2)), "no", "--did-not-help", "--tag", "resize")
    assert "did not help once" in run("tags", "list")
    assert "resize is now restart" in run("tags", "merge", "resize", "--into", "restart")
    both = ["--did-not-help", "--no-action-needed"]
    ran = CliRunner().invoke(
        app, ["alerts", "resolve", "x", "y", *both, "--workspace", str(services.settings.file)]
    )
    assert "a resolution has one effect" in str(ran.exception)


def test_span_of_a_day_is_the_default() -> None:
    assert TagQuery.model_validate({}).within == timedelta(days=1).total_seconds()
