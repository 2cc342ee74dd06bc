"""Judgements of past events: stored, evaluated, used for calibration, and shown with the next
answer.
"""

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

from archiver.chunks.chunk import FIRST_CHUNK
from moirae.cli import app
from moirae.config.settings import load_settings
from moirae.deployments.registry import RuleRegistry
from moirae.errors import NotFound, UsageError
from moirae.feedback.calibration_task import build_models, calibrate
from moirae.feedback.workspace import load_judged_corpora
from moirae.inspect.past_events import load_answers
from moirae.live.outbox import open_outboxes
from moirae.rules.definition import Definition
from moirae.rules.model import Group
from moirae.rules.rule_set import build_rules
from moirae.runtime import database
from recall.learned_models import LearnedModels
from recall.ledger.commands import CommandExecutor, Target, submit_command
from recall.ledger.records import Revision, Task, TaskProgress, TaskSpec, TurnResult
from recall.ledger.tasks import Ledger
from recall.requests import Coverage, RecallEvent, SimilarQuestion
from recall.scheduling import TaskStatistics, TurnStatistics
from tests.workspaces import write_workspace

START = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = UUID(int=7)
EVENTS = 90
RULE = {
    "name": "g",
    "rules": [
        {
            "alert": "Slow",
            "expr": "SELECT host, ts FROM cpu",
            "key": ["host"],
            "context": {"why": {"sql": "SELECT msg FROM logs", "within": "1m"}},
            "recall": {"similar": {"similar": {"k": 5, "measure": "attributes"}}},
        }
    ],
}


def eid(number: int) -> UUID:
    return uuid5(SPACE, str(number))


def kind(number: int) -> str:
    return ("disk", "cpu", "net")[number * 7 % 3]


@pytest.fixture(scope="module")
def workspace() -> Iterator[tuple[Path, Connection[Any]]]:
    """A past of resolved alerts, most of which their words tell apart; the newest has an answer."""
    # The database server ends, and writes, a moment after its last connection.
    with tempfile.TemporaryDirectory(prefix="moirae-judged-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        root.chmod(0o755)
        write_workspace(root, "home: .moirae\nstreams: {}\n")
        connection = database.connect_database(load_settings(root / "moirae.yaml", {}), "test")
        rule = build_rules(Group.model_validate(RULE))[0]
        definition = Definition(rule, {"host": "string"}, ("host",), ("host",))
        RuleRegistry(connection).apply([definition])
        for number in range(EVENTS):
            add_event(connection, definition, number)
        _answer(connection, definition)
        yield root / "moirae.yaml", connection
        connection.close()


def add_event(connection: Connection[Any], definition: Definition, number: int) -> None:
    event_kind = kind(number) if number % 5 else kind(number + 1)
    values = {
        "eid": eid(number),
        "rule": definition.name,
        "version": definition.version,
        "ts": START + timedelta(hours=number),
        "key": Jsonb({"host": f"n{number % 4}"}),
        "print": f"n{number % 4}",
        "contexts": Jsonb({"why": [{"msg": f"{event_kind}{number % 2}"}]}),
        "number": number + 1,
        "tag": kind(number),
        "alert": uuid5(SPACE, f"alert {number}"),
    }
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
        " VALUES (%(eid)s, %(rule)s, %(version)s, %(ts)s, %(print)s, %(key)s, '{}', true)",
        values,
    )
    connection.execute(
        "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus)"
        " VALUES (%(rule)s, %(version)s, %(eid)s, %(ts)s, %(contexts)s, '{}', true, %(number)s)",
        values,
    )
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, "
        "state, starts_at, last_at,"
        " events) VALUES (%(alert)s, %(eid)s, %(rule)s, %(version)s, %(print)s, %(key)s, '{}', "
        "'{}', 'resolved',"
        " %(ts)s, %(ts)s, 1)",
        values,
    )
    if number < EVENTS - 1:
        connection.execute(
            "INSERT INTO alert_notes (alert_id, kind, author, text, tag)"
            " VALUES (%(alert)s, 'resolution', 'ops', 'done', %(tag)s)",
            values,
        )


def _answer(connection: Connection[Any], definition: Definition) -> None:
    task, last = uuid5(SPACE, "task"), EVENTS - 1
    request = {"kind": "similar", "contexts": ["why"], "k": 5, "measure": "attributes", "gap": 0}
    hits = [
        {
            "rank": rank,
            "past_eid": str(eid(last - 3 * rank)),
            "past_ts": 0,
            "score": 1.0,
            "shared": [],
            "only_new": [],
            "only_past": [],
            "corpus": {"events": last, "newest": 0, "number": last},
        }
        for rank in (1, 2, 3)
    ]
    covered = {
        "final": True,
        "partial": False,
        "read": 1,
        "left": 0,
        "failed": 0,
        "read_from": None,
    }
    connection.execute(
        "INSERT INTO tasks (id, eid, rule, version, recall, request, event, state, tickets)"
        " VALUES (%s, %s, %s, %s, 'similar', %s, '{}', 'done', 1)",
        (task, eid(last), definition.name, definition.version, Jsonb(request)),
    )
    connection.execute(
        "INSERT INTO revisions (task, number, final, coverage, answer) VALUES (%s, 1, true, %s, "
        "%s)",
        (task, Jsonb(covered), Jsonb(hits)),
    )


def run(workspace: Path, *arguments: str) -> str:
    result = CliRunner().invoke(
        app, [*arguments, "--workspace", str(workspace)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def archive(workspace: Path) -> Path:
    return Path(load_settings(workspace, {}).archive)


@pytest.mark.slow
def test_evaluation_of_a_workspace_is_printed(
    workspace: tuple[Path, Connection[Any]], tmp_path: Path
) -> None:
    picture = tmp_path / "quality.png"
    (report,) = json.loads(
        run(workspace[0], "similarity", "eval", "-o", "json", "--picture", str(picture))
    )
    assert report["name"] == "g/Slow similar"
    assert report["measure"] == "attributes"
    assert EVENTS - 10 < report["queries"] < EVENTS
    rankers = report["rankers"]
    baselines = {"bm25", "recency", "same place", "chance", "frequencies"}
    assert rankers.keys() == {"tfidf", "binary", "attributes", "learned"} | baselines
    assert rankers["attributes"]["p1"]["value"] > rankers["chance"]["p1"]["value"] + 0.2
    assert picture.read_bytes()[:4] == b"\x89PNG"
    table = run(workspace[0], "similarity", "eval", "--rule", "Slow")
    assert "attributes" in table and "P@10 over time" in table
    with pytest.raises(UsageError, match="no applied rule 'None' has a similarity recall"):
        run(workspace[0], "similarity", "eval", "--rule", "None")


@pytest.mark.slow
def test_tags_are_learned_from_the_time_on_that_known_after_sets(
    workspace: tuple[Path, Connection[Any]],
) -> None:
    """The tags were recorded long after the events: by default nothing was known in time."""
    options = ("similarity", "eval", "-o", "json")
    (late,) = json.loads(run(workspace[0], *options))
    (early,) = json.loads(run(workspace[0], *options, "--known-after", "1m"))
    assert late["rankers"]["learned"] == late["rankers"]["attributes"]
    assert late["forecasts"] is None and late["warnings"]
    assert [stage["low"] for stage in late["by_resolutions"]] == [0]
    assert [stage["low"] for stage in early["by_resolutions"]] == [0, 10, 50]
    assert early["rankers"]["learned"] != late["rankers"]["learned"]
    with pytest.raises(UsageError, match="--known-after"):
        run(workspace[0], *options, "--known-after", "soon")


def test_unresolved_alerts_are_listed(workspace: tuple[Path, Connection[Any]]) -> None:
    (alert,) = json.loads(run(workspace[0], "similarity", "ask", "-o", "json"))
    assert alert["alert"] == str(uuid5(SPACE, f"alert {EVENTS - 1}"))
    assert alert["tag"] is None  # no model: the rule has another measure
    assert "n1" in run(workspace[0], "similarity", "ask", "--rule", "Slow")
    assert "no unresolved" in run(workspace[0], "similarity", "ask", "--rule", "None")


@pytest.mark.slow
def test_models_are_built_for_recalls_by_the_learned_measure_only(
    workspace: tuple[Path, Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, connection = workspace
    assert build_models(connection, archive(path)) == (0, 0)
    monkeypatch.setattr("moirae.feedback.calibration_task.LEARNED_MEASURE", "attributes")
    with connection.transaction(force_rollback=True):
        assert build_models(connection, archive(path)) == (1, 0)
        rule = connection.execute("SELECT rule, version, recall FROM learned_models").fetchone()
        assert rule is not None
        model = LearnedModels(connection).load_newest(*rule)
        assert model is not None
        assert model.forecast({"msg=disk1": 1}, 1).tags[0][0] == "disk"


def test_deleted_events_count_as_candidates_of_a_judged_hit(
    workspace: tuple[Path, Connection[Any]],
) -> None:
    """The number of candidates does not depend on the number of judged events."""
    path, connection = workspace
    ((_, _, before),) = load_judged_corpora(connection, archive(path))
    for outbox in open_outboxes(connection, archive(path)).values():
        outbox.flush([FIRST_CHUNK])
    with connection.transaction(force_rollback=True):
        for table in ("contexts", "events"):
            connection.execute(
                f"DELETE FROM {table} WHERE ts < %s".encode(), (START + timedelta(hours=40),)
            )
        connection.execute("UPDATE corpus_forgotten SET number = 40")
        ((_, _, after),) = load_judged_corpora(connection, archive(path))
    assert [(alert.event_id, alert.term_counts) for alert in after.alerts] == [
        (alert.event_id, alert.term_counts) for alert in before.alerts
    ]
    assert len({alert.location for alert in after.alerts[:40]}) == 4


def test_judgement_of_a_hit_is_stored(workspace: tuple[Path, Connection[Any]]) -> None:
    path, connection = workspace
    query_event, past = str(eid(50)), str(eid(3))
    assert "is not relevant to" in run(path, "similarity", "disagree", query_event, past)
    assert "is relevant to" in run(
        path, "similarity", "agree", query_event, past, "--author", "ops"
    )
    ((_, _, corpus_events),) = load_judged_corpora(connection, archive(path))
    assert corpus_events.judgements == {}, "people disagree"
    run(path, "similarity", "withdraw", query_event, past)
    ((_, _, corpus_events),) = load_judged_corpora(connection, archive(path))
    assert corpus_events.judgements == {(query_event, past): True}
    with pytest.raises(NotFound, match="no own judgement of"):
        run(path, "similarity", "withdraw", query_event, past)
    with pytest.raises(UsageError, match="is not a past event of the rule of"):
        run(path, "similarity", "agree", query_event, query_event)


def test_answer_after_calibration_has_a_match_probability(
    workspace: tuple[Path, Connection[Any]],
) -> None:
    path, connection = workspace
    last = eid(EVENTS - 1)
    (before,) = load_answers(connection, last)
    assert before.comparable is None
    assert before.match is not None and before.match["withheld"]
    assert "too few to say (0 episodes" in run(path, "similar", str(last))
    assert calibrate(connection, archive(path)) == 1
    (after,) = load_answers(connection, last)
    assert after.comparable is not None and 0.5 < after.comparable < 1
    assert after.match is not None
    low, high = after.match["interval"]
    assert low < after.comparable < high
    assert after.match["nothing_comparable"] < 0.2
    assert "best hit is of the same kind" in run(path, "similar", str(last))
    connection.execute("DELETE FROM alert_notes")
    assert calibrate(connection, archive(path)) == 0
    assert load_answers(connection, last)[0].comparable is None


# What is said of an answer, at its time


@pytest.fixture
def learned(workspace: tuple[Path, Connection[Any]]) -> Iterator[Connection[Any]]:
    """The workspace's connection, in which enough was learned; afterwards all is as it was."""
    path, connection = workspace
    with connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM calibrations")
        for number in range(EVENTS - 1):
            connection.execute(
                "INSERT INTO alert_notes (alert_id, kind, author, text, tag)"
                " VALUES (%s, 'resolution', 'ops', 'done', %s)",
                (uuid5(SPACE, f"alert {number}"), kind(number)),
            )
        assert calibrate(connection, archive(path)) == 1
        yield connection


def _running(connection: Connection[Any]) -> Task:
    """The answered task, as a process works on it that has not answered yet."""
    lease = 7
    connection.execute("UPDATE tasks SET state = 'running', lease = %s, revision = 0", (lease,))
    row = connection.execute("SELECT id, rule, version, recall, fence FROM tasks").fetchone()
    assert row is not None
    number, rule, version, recall, fence = row
    spec = TaskSpec(
        id=number,
        rule=rule,
        version=version,
        recall=recall,
        question=SimilarQuestion(
            None, 1.0, "newest", contexts=("why",), k=5, measure="attributes", gap=0
        ),
        event=RecallEvent(eid(EVENTS - 1), 0, {}, {}),
        fence=fence,
        created_at=START,
    )
    progress = TaskProgress(
        level=0,
        tickets=100,
        pieces=None,
        corpus=None,
        model=None,
        next=0,
        failed=0,
        skipped=0,
        partial_answer=None,
        revision=0,
        tries=0,
        statistics=TaskStatistics(),
    )
    return Task(spec, progress)


def _advance(connection: Connection[Any], task: Task, state: str, revision: Revision) -> str | None:
    """Store the revision as the result of a turn; returns the new state of the task."""
    result = TurnResult(
        next=1,
        failed=0,
        partial_answer=None,
        statistics=TurnStatistics(pieces=1, rows=0, results=0, seconds=0.0),
        state=state,
        revision=revision,
    )
    advanced = Ledger(connection, 7).advance(task, result)
    return None if advanced is None else advanced[0]


def _revision(connection: Connection[Any], final: bool) -> Revision:
    """The stored answer, taken out of the ledger."""
    row = connection.execute("DELETE FROM revisions RETURNING answer").fetchone()
    assert row is not None
    return Revision(Coverage(None, None, None, 1, 0, 0, final, False), row[0])


def test_final_answer_keeps_its_match_probability(learned: Connection[Any]) -> None:
    (before,) = load_answers(learned, eid(EVENTS - 1))
    assert before.comparable is not None  # stored without it, and told by what is known now
    task, revision = _running(learned), _revision(learned, final=True)
    assert _advance(learned, task, "done", revision) == "done"
    assert learned.execute("SELECT comparable FROM revisions").fetchone() == (before.comparable,)
    learned.execute("DELETE FROM calibrations")
    learned.execute("DELETE FROM alert_notes")
    (after,) = load_answers(learned, eid(EVENTS - 1))
    assert after.comparable == before.comparable
    assert after.match == before.match


def test_finalized_answer_keeps_its_match_probability(learned: Connection[Any]) -> None:
    task, revision = _running(learned), _revision(learned, final=False)
    assert _advance(learned, task, "running", revision) == "running"
    assert learned.execute("SELECT comparable FROM revisions").fetchone() == (None,)
    assert (
        load_answers(learned, eid(EVENTS - 1))[0].comparable is None
    )  # there will be another answer
    submit_command(learned, "k", "finalize", Target(task=str(task.id)), "ada")
    assert CommandExecutor(learned, 1).execute_pending()
    said = learned.execute("SELECT comparable FROM revisions ORDER BY number").fetchall()
    assert said[0] == (None,) and 0.5 < said[1][0] < 1
    learned.execute("DELETE FROM calibrations")
    assert load_answers(learned, eid(EVENTS - 1))[0].comparable == said[1][0]


def test_answer_is_stored_without_probability_if_calibration_is_unreadable(
    learned: Connection[Any],
) -> None:
    learned.execute("UPDATE calibrations SET model = '{}'")
    task, revision = _running(learned), _revision(learned, final=True)
    assert _advance(learned, task, "done", revision) == "done"
    assert learned.execute("SELECT final, comparable FROM revisions").fetchall() == [(True, None)]
