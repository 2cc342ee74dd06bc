"""Stages and conditions over revisions: the paper's figures 2, 11 and 12, limits, boundaries."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from archiver.time_range import TimeRange
from moirae.deployments.registry import RuleRegistry
from moirae.errors import NotFound
from moirae.evaluation.revision_rows import RevisionRows
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import RevisionStream, Rule
from moirae.runtime import storage
from moirae.services.operations.recalls import RevisionQuery, list_row_revisions
from moirae.services.workspace import LocalWorkspace
from recall.event_plans import EventPlan
from recall.ledger.commands import CommandExecutor, Target, submit_command
from recall.ledger.revision_reader import read_revisions
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.revisions.changes import diff
from recall.revisions.row_keys import HIT_COLUMNS, key_rows
from sql.events import ContextGateway, NewContextRow
from tests.stage_world import (
    ATTRIBUTES,
    NORM_COLUMNS,
    RULE,
    START,
    VERSION,
    StageWorld,
    micros,
    stage,
    stage_world,
)

KEY = {"site": "string"}
NORM = {"norm": {**KEY, **NORM_COLUMNS}}
LIGHT = stage(
    "light",
    "SELECT n.host, max(n.mean) AS mean FROM norm n WHERE n.mean < event.limit GROUP BY n.host",
    NORM,
    {"host": "string", "mean": "double"},
)
TUPLES = stage(
    "tuples",
    "SELECT n.host, p.ts, p.v FROM norm n JOIN load p ON p.host = n.host",
    NORM,
    {"host": "string", "ts": "timestamp", "v": "double"},
    live=True,
    within=3,
    delay=3,
)
NORM_SQL = "SELECT avg(h.v) AS mean FROM load h WHERE h.host = event.host"
CONDITION = "norm.mean > 2"


@pytest.fixture(scope="module")
def _world() -> Iterator[StageWorld]:
    with stage_world() as world:
        world.ingest([(float(second), "a", float(second)) for second in range(18)])
        yield world


@pytest.fixture
def world(_world: StageWorld) -> StageWorld:
    _world.clear()
    return _world


def _plan(*stages: Any, **options: Any) -> EventPlan:
    return EventPlan(
        recalls=("norm",), stages=stages, attributes=ATTRIBUTES, key_types=KEY, every=0.0, **options
    )


def _answer(world: StageWorld, number: int, at: float, means: dict[str, float]) -> None:
    """The next answer of the recall of an event."""
    output = EventOutput(RULE, VERSION, "norm", UUID(int=number), micros(at))
    streams = RevisionStreams(world.connection)
    rows = [{"host": host, "mean": mean, "n": 1} for host, mean in means.items()]
    after = key_rows(rows, ("host",))
    with world.connection.transaction():
        streams.append(output, diff(streams.current_rows(output), after))


def _end_recalls(world: StageWorld, *numbers: int) -> None:
    world.connection.execute(
        "UPDATE tasks SET state = 'done', ended_at = now() WHERE eid = ANY(%s)",
        ([UUID(int=number) for number in numbers],),
    )


def _operations(world: StageWorld, name: str, number: int) -> list[tuple[str, Any]]:
    return [
        (op, None if row is None else row.get("mean"))
        for _, op, _, row in world.revisions(name, UUID(int=number))
    ]


def test_update_behind_the_window_is_processed_until_its_boundary(world: StageWorld) -> None:
    """Figure 11: window [14, 16], boundary 10; an update for 12 is processed; boundary 13 drops
    what is older.
    """
    for second in range(11, 17):
        world.request(second, second, _plan(LIGHT), limit=100.0)
        _answer(world, second, second, {"a": float(second)})
    with world.runner() as runner:
        runner.run_once()
        rows_of_all = runner.rows_in_memory
        assert rows_of_all == 2 * 6, "a row of the recall and one of the stage for each tuple"
        _answer(world, 12, 12, {"a": 50.0})
        runner.run_once()
        assert _operations(world, "light", 12) == [("insert", 12.0), ("update", 50.0)]
        _end_recalls(world, 11, 12, 13)
        runner.end_events()
        assert [world.has_ended(UUID(int=second)) for second in range(11, 17)] == [True] * 3 + [
            False
        ] * 3
        assert runner.rows_in_memory == 2 * 3, "the state of 11, 12 and 13 is dropped"
        assert _operations(world, "light", 12)[-1] == ("boundary", None)
        _answer(world, 15, 15, {"a": 60.0})
        runner.run_once()
        assert _operations(world, "light", 15) == [("insert", 15.0), ("update", 60.0)]


@pytest.mark.parametrize(
    ("analysis", "seconds"), [("event", range(9, 16)), ("present", range(9, 18))]
)
def test_updated_tuple_joins_the_window_of_its_event_or_also_newer_tuples(
    world: StageWorld, analysis: str, seconds: range
) -> None:
    """Figure 12: an update at 12 joins [9, 15], or also tuples after 15."""
    tuples = stage(
        "tuples",
        TUPLES.sql,
        NORM,
        dict(TUPLES.columns),
        live=True,
        within=3,
        delay=3,
        analysis=analysis,
    )
    eid = world.request(12, 12, _plan(tuples))
    _answer(world, 12, 12, {"b": 1.0})
    with world.runner() as runner:
        runner.run_once()
        assert world.replayed("tuples", eid) == []
        _answer(world, 12, 12, {"a": 1.0})
        runner.run_once()
    assert sorted(row["v"] for row in world.replayed("tuples", eid)) == list(map(float, seconds))


def test_live_row_alone_produces_a_revision_in_present_analysis() -> None:
    with stage_world() as world:
        world.ingest([(1.0, "a", 1.0)])
        tuples = stage(
            "tuples",
            TUPLES.sql,
            NORM,
            dict(TUPLES.columns),
            live=True,
            within=3,
            analysis="present",
        )
        eid = world.request(1, 2.0, _plan(tuples))
        _answer(world, 1, 2.0, {"a": 1.0})
        with world.runner() as runner:
            runner.run_once()
            world.ingest([(60.0, "a", 2.0)])
            runner.run_once()
            world.ingest([(30.0, "a", 3.0)])  # late: no stage sees it
            runner.run_once()
        assert sorted(row["v"] for row in world.replayed("tuples", eid)) == [1.0, 2.0]


def test_boundary_waits_for_the_rows_of_the_window(world: StageWorld) -> None:
    """The watermark is at 17: an event at 14 with a delay of 3 needs a later row."""
    for number, at in ((1, 13.0), (2, 14.0)):
        world.request(number, at, _plan(TUPLES))
        _answer(world, number, at, {"a": 1.0})
    _end_recalls(world, 1, 2)
    with world.runner() as runner:
        runner.run_once()
        runner.end_events()
    assert world.has_ended(UUID(int=1))
    assert not world.has_ended(UUID(int=2))


def test_stage_beyond_its_limit_fails_with_the_reason(world: StageWorld) -> None:
    chained = stage(
        "chained",
        "SELECT count(*) AS n FROM light l",
        {"light": {**KEY, **LIGHT.columns}},
        {"n": "bigint"},
    )
    eid = world.request(1, 12, _plan(LIGHT, chained), limit=100.0)
    _answer(world, 1, 12, {"a": 1.0, "b": 2.0})
    with world.runner(max_rows=3) as runner:
        runner.run_once()
        assert world.replayed("chained", eid) == [{"n": 2}]
        _answer(world, 1, 12, dict.fromkeys("abcd", 1.0))
        runner.run_once()
    assert world.replayed("light", eid) == []
    assert world.replayed("chained", eid) == [{"n": 0}]
    rows = world.connection.execute(
        "SELECT name, state, error FROM stages ORDER BY name"
    ).fetchall()
    assert rows[0][:2] == ("chained", "running")
    assert rows[1] == (
        "light",
        "failed",
        "limit exceeded: 4 rows of its inputs than limits.stage_rows = 3",
    )
    assert world.task_state(eid) == "waiting"


def _store_context(world: StageWorld, hosts: str, *, settled: bool) -> None:
    contexts = {"near": [{"host": host} for host in hosts]}
    row = NewContextRow(
        rule=RULE,
        version=VERSION,
        eid=UUID(int=1),
        ts=START + timedelta(seconds=12),
        contexts=contexts,
        surroundings={},
        cut={},
        settled=settled,
    )
    ContextGateway(world.connection).put([row])


def test_stage_follows_the_contexts_that_it_reads(world: StageWorld) -> None:
    """The recall has ended before its context is computed: the stage does not stay empty."""
    near = stage(
        "near_light",
        "SELECT n.host FROM norm n JOIN near c ON c.host = n.host",
        {**NORM, "near": {"host": "string"}},
        {"host": "string"},
    )
    world.connection.execute(
        "INSERT INTO deployments (rule, version, state, settled_to) VALUES (%s, %s, 'running', %s)",
        (RULE, VERSION, START + timedelta(seconds=13)),
    )
    world.connection.execute(
        "INSERT INTO events (eid, rule, version, ts, key, fingerprint, attributes, settled) VALUES"
        " (%s, %s, %s, %s, '{}', 'f', '{}', true)",
        (UUID(int=1), RULE, VERSION, START + timedelta(seconds=12)),
    )
    eid = world.request(1, 12, _plan(near, needs_corpus=True))
    world.add_alert(eid)
    world.connection.execute("UPDATE alerts SET fired_at = now()")
    _answer(world, 1, 12, {"a": 1.0, "b": 2.0, "c": 3.0})
    _end_recalls(world, 1)

    def hosts() -> set[str]:
        return {str(row["host"]) for row in world.replayed("near_light", eid)}

    with world.runner() as runner:
        runner.run_once()
        assert hosts() == set()
        _store_context(world, "ab", settled=False)
        runner.run_once()
        assert hosts() == {"a", "b"}
        runner.end_events()
        assert not world.has_ended(eid), "the context may still change"
        _store_context(world, "bc", settled=True)
        runner.run_once()
        assert hosts() == {"b", "c"}
        world.connection.execute("UPDATE contexts SET corpus = 1")
        runner.end_events()
    assert world.has_ended(eid)
    assert hosts() == {"b", "c"}


def test_runner_continues_from_stored_revisions(world: StageWorld) -> None:
    """A new process knows nothing, and finds what has changed meanwhile."""
    eid = world.request(1, 12, _plan(LIGHT), limit=10.0)
    _answer(world, 1, 12, {"a": 1.0, "b": 2.0})
    with world.runner() as runner:
        runner.run_once()
    _answer(world, 1, 12, {"a": 1.0, "b": 20.0, "c": 3.0})
    with world.runner() as runner:
        runner.run_once()
        before = world.revisions("light")
        runner.run_once()
    assert world.revisions("light") == before
    assert [op for _, op, *_ in before] == ["insert", "insert", "delete", "insert"]
    assert {row["host"] for row in world.replayed("light", eid)} == {"a", "c"}


def test_two_runners_store_each_change_once(world: StageWorld) -> None:
    eid = world.request(1, 12, _plan(LIGHT), limit=10.0)
    with world.runner() as first, world.runner() as second:
        for number in range(6):
            _answer(world, 1, 12, {"a": float(number), "b": 1.0})
            first.run_once()
            second.run_once()
    assert [op for _, op, *_ in world.revisions("light")] == ["insert"] * 2 + ["update"] * 5
    assert {row["mean"] for row in world.replayed("light", eid)} == {5.0, 1.0}


def test_cancel_deletes_all_rows_before_the_boundary(world: StageWorld) -> None:
    eid = world.request(1, 12, _plan(LIGHT), limit=10.0)
    _answer(world, 1, 12, {"a": 1.0, "b": 2.0})
    with world.runner() as runner:
        runner.run_once()
        submit_command(world.connection, "k", "cancel", Target(eid=str(eid)), "tests")
        CommandExecutor(world.connection, 1).execute_pending()
        runner.run_once()
        runner.end_events()
        assert runner.rows_in_memory == 0
    assert world.replayed("norm", eid) == world.replayed("light", eid) == []
    assert [op for _, op, *_ in world.revisions("light")] == ["insert"] * 2 + ["delete"] * 2 + [
        "boundary"
    ]


def test_event_without_progress_ends_as_timed_out(world: StageWorld) -> None:
    eid = world.request(1, 14, _plan(TUPLES))
    _answer(world, 1, 14, {"a": 1.0})
    _end_recalls(world, 1)
    executor = CommandExecutor(world.connection, 1)
    with world.runner() as runner:
        runner.run_once()
        runner.end_events()
        assert not executor.end_without_progress(timedelta(hours=1))
        world.connection.execute(
            "UPDATE recalled_events SET created_at = now() - interval '2h',"
            " evaluated_at = now() - interval '2h'"
        )
        world.connection.execute(
            "UPDATE tasks SET created_at = now() - interval '2h', ended_at = now() - interval '2h'"
        )
        assert not world.has_ended(eid)
        assert executor.end_without_progress(timedelta(hours=1))
        runner.end_events()
    assert world.has_ended(eid)


def test_event_dropped_by_settling_loses_its_rows(world: StageWorld) -> None:
    world.connection.execute(
        "INSERT INTO deployments (rule, version, state) VALUES (%s, %s, 'running')", (RULE, VERSION)
    )
    eid = world.request(1, 12, _plan(LIGHT), limit=10.0)
    _answer(world, 1, 12, {"a": 1.0})
    _end_recalls(world, 1)
    with world.runner() as runner:
        runner.run_once()
        runner.end_events()
        assert not world.has_ended(eid)  # the next revision may bring it back
        world.connection.execute(
            "UPDATE deployments SET settled_to = %s", (START + timedelta(seconds=13),)
        )
        runner.end_events()
    assert world.has_ended(eid)
    for name in ("norm", "light"):
        assert [op for _, op, *_ in world.revisions(name, eid)] == ["insert", "delete", "boundary"]


def test_revisions_are_read_on_from_a_number(world: StageWorld) -> None:
    world.request(1, 12, _plan(LIGHT), limit=10.0)
    _answer(world, 1, 12, {"a": 1.0, "b": 2.0, "c": 3.0})
    root = storage.open_storage(world.settings)
    batch = read_revisions(world.connection, root, "r/norm", limit=2)
    assert [revision.seq for revision in batch.revisions] == [1, 2]
    rest = read_revisions(world.connection, root, "norm", batch.last)
    assert [revision.op for revision in rest.revisions] == ["insert"]
    assert (rest.rule, rest.name, rest.last) == (RULE, "norm", 3)


def test_stream_is_found_by_its_name_outside_its_rule(world: StageWorld) -> None:
    spec = AlertSpec.model_validate(
        {
            "alert": "r",
            "expr": "SELECT ts, host FROM load",
            "recall": {"norm": {"sql": NORM_SQL, "stream": "usual"}},
            "then": [{"stream": "light", "sql": "SELECT n.host FROM norm n"}],
        }
    )
    definition = Definition(Rule("g", spec), {"host": "string"}, ("host",), ("host",))
    RuleRegistry(world.connection).apply([definition])
    services = LocalWorkspace(
        settings=world.settings, connection=world.connection, author="tests", via="cli"
    )
    before = list_row_revisions(services, "usual", RevisionQuery())
    assert (before.rule, before.name, before.revisions, before.last) == (RULE, "norm", [], 0)
    assert list_row_revisions(services, "r/light", RevisionQuery(after=3)).last == 3
    world.request(1, 12, _plan(LIGHT), limit=10.0)
    _answer(world, 1, 12, {"a": 1.0})
    page = list_row_revisions(services, "Usual", RevisionQuery())
    assert (page.rule, page.name, page.last) == (RULE, "norm", 1)
    assert [revision.op for revision in page.revisions] == ["insert"]
    with pytest.raises(NotFound, match="no recall or stage 'heavy' has revisions"):
        list_row_revisions(services, "heavy", RevisionQuery())
    RuleRegistry(world.connection).apply([])


# Streams of similarity recalls


def _compare(world: StageWorld, scores: dict[int, float]) -> None:
    """The next answer of the similarity recall of the first event, by past event."""
    output = EventOutput(RULE, VERSION, "alike", UUID(int=1), micros(12))
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    rows = []
    for rank, (number, score) in enumerate(ranked, 1):
        ts = (START + timedelta(seconds=number)).isoformat()
        rows.append(
            {"past_eid": str(UUID(int=number)), "rank": rank, "score": score, "past_ts": ts}
        )
    streams = RevisionStreams(world.connection)
    with world.connection.transaction():
        streams.append(output, diff(streams.current_rows(output), key_rows(rows, ("past_eid",))))


def test_similarity_recall_is_a_stream_with_its_past_events(world: StageWorld) -> None:
    for number, host in ((21, "p"), (22, "q")):
        world.connection.execute(
            "INSERT INTO events (eid, rule, version, ts, key, fingerprint, attributes, settled)"
            " VALUES (%s, %s, %s, now(), '{}', 'f', jsonb_build_object('host', %s::text), true)",
            (UUID(int=number), RULE, VERSION, host),
        )
    alike = {**KEY, **HIT_COLUMNS, "host": "string"}
    best = stage(
        "best",
        "SELECT s.host, s.score FROM alike s WHERE s.rank = 1",
        {"alike": alike},
        {"host": "string", "score": "double"},
    )
    plan = EventPlan(
        recalls=("alike",), similar=("alike",), stages=(best,), attributes=ATTRIBUTES, key_types=KEY
    )
    eid = world.request(1, 12, plan, recall="alike")
    rows = RevisionRows(world.connection, storage.open_storage(world.settings))
    columns = {"eid": "string", "ts": "timestamp", **alike}
    revision_columns = {**columns, "seq": "bigint", "op": "string"}
    rows.set_streams(
        [
            RevisionStream("past", RULE, "alike", columns, is_similar=True),
            RevisionStream("past_revisions", RULE, "alike", revision_columns, is_similar=True),
        ]
    )
    all_time = TimeRange(None)
    with world.runner() as runner:
        _compare(world, {21: 0.9})
        runner.run_once()
        assert world.replayed("best", eid) == [{"host": "p", "score": 0.9}]
        assert rows.refresh() == {"past", "past_revisions"}
        _compare(world, {21: 0.9, 22: 0.95})
        runner.run_once()
        assert world.replayed("best", eid) == [{"host": "q", "score": 0.95}]
    present = rows.read("past", all_time).to_pylist()
    assert [(row["host"], row["rank"], row["site"]) for row in present] == [
        ("q", 1, "x"),
        ("p", 2, "x"),
    ]
    revisions = rows.read("past_revisions", all_time).to_pylist()
    assert [(row["seq"], row["op"], row["host"], row["rank"]) for row in revisions] == [
        (1, "insert", "p", 1),
        (2, "insert", "q", 1),
        (3, "update", "p", 2),
    ]
    assert rows.refresh() == {"past", "past_revisions"}
    assert rows.refresh() == frozenset()


# Conditions


def _store_answer(world: StageWorld, eid: UUID, number: int, mean: float | None) -> None:
    """An answer with its row revisions."""
    world.connection.execute(
        "INSERT INTO revisions (task, number, final, coverage, answer) SELECT id, %s, false, '{}',"
        " jsonb_build_array(jsonb_build_object('host', 'a', 'mean', %s::float8, 'n', 1))"
        " FROM tasks WHERE eid = %s",
        (number, mean, eid),
    )
    _answer(world, eid.int, 12, {"a": mean if mean is not None else 0.0})


def test_alert_is_held_to_its_history_at_each_revision(world: StageWorld) -> None:
    """Figure 2: kept only if outside of the norm; a withdrawn alert may be kept again."""
    plan = _plan(where=CONDITION, judged={"norm": NORM_COLUMNS})
    eid = UUID(int=1)
    world.add_alert(eid)
    world.request(1, 12, plan)
    assert world.histories() == [("waiting", False)]
    with world.runner() as runner:
        runner.run_once()
        for number, mean in enumerate([1.0, 3.0, 4.0], 1):
            _store_answer(world, eid, number, mean)
            runner.run_once()
        _end_recalls(world, 1)
        runner.end_events()
    assert world.histories() == [
        ("waiting", False),
        ("withdrawn", False),
        ("kept", False),
        ("kept", True),
    ]
    (reason,) = world.connection.execute(
        "SELECT reason FROM alert_history ORDER BY id DESC LIMIT 1"
    ).fetchone() or (None,)
    assert reason == "the condition is true over norm (revision 3, done)"


@pytest.mark.parametrize("state", ["failed", "cancelled", "done"])
def test_condition_without_answer_ends_without_history(world: StageWorld, state: str) -> None:
    plan = _plan(where=CONDITION, judged={"norm": NORM_COLUMNS})
    eid = UUID(int=1)
    world.add_alert(eid)
    world.request(1, 12, plan)
    if state == "failed":
        _store_answer(world, eid, 1, 3.0)
    world.connection.execute("UPDATE tasks SET state = %s, ended_at = now()", (state,))
    with world.runner() as runner:
        runner.run_once()
        runner.end_events()
    assert world.histories()[-1] == ("no_history", True)
