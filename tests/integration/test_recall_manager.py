"""The recall manager over a history in chunks: states of tasks, for one or several managers."""

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg.errors import DeadlockDetected

import recall.worker.comparisons
from archiver.errors import LogDamaged
from archiver.read.reader import Reader
from archiver.time_range import TimeRange
from archiver.times import to_micros
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.statement import Statement
from recall.engines.template import PartialQuery
from recall.errors import CommandKeyConflict
from recall.ledger.commands import Target, fetch_effect, submit_command
from recall.ledger.tasks import Ledger, SchedulingPolicy, retry_on_deadlock
from recall.requests import Order, RecallEvent, RecallRequest, SimilarQuestion, task_id
from recall.similarity.answer import SimilarState
from recall.similarity.index import Index
from recall.similarity.measure import TfIdfMeasure
from recall.worker.active_tasks import MAX_ATTEMPTS
from tests.integration.history import COUNT, HOSTS, START, History, go_on

ENDLESS = Statement("SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c")


def test_revisions_extend_coverage_until_final(past: History) -> None:
    tasks = [past.ask(number, host=number % 4) for number in range(1, 5)]
    with past.manager(workers=2) as manager:
        go_on(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    for number, task in enumerate(tasks, start=1):
        revisions = past.revisions(task)
        assert [one["number"] for one in revisions] == list(range(1, len(revisions) + 1))
        assert revisions[-1]["answer"] == [past.whole(number % 4)]
        assert revisions[-1]["coverage"]["final"] and not revisions[0]["coverage"]["final"]


# Control


def test_command_is_answered_with_its_effect(past: History) -> None:
    tasks = [past.ask(number) for number in (1, 2)]
    with past.manager() as manager:
        go_on(manager, lambda: all(past.task(task)["next"] >= 2 for task in tasks))
        left = len(past.task(tasks[0])["pieces"]) - past.task(tasks[0])["next"]
        number = submit_command(
            past.connection, "a", "accelerate", Target(task=str(tasks[0])), "test"
        )
        go_on(manager, lambda: fetch_effect(past.connection, number) is not None)
        done = fetch_effect(past.connection, number)
        assert done is not None and done.recalls == 1 and 0 < done.chunks_left <= left
        assert done.seconds_before is not None and done.seconds_after is not None
        assert 0 < done.seconds_after <= done.seconds_before


def test_cancelled_recall_has_no_answer_and_finalized_recall_keeps_its_last(past: History) -> None:
    first, second, third = (past.ask(number, rule=f"g/r{number}") for number in (1, 2, 3))
    with past.manager() as manager:
        go_on(
            manager,
            lambda: all(past.task(task)["revision"] >= 1 for task in (first, second, third)),
        )
        submit_command(
            past.connection, "a", "cancel", Target(eid=str(past.task(first)["eid"])), "test"
        )
        submit_command(past.connection, "b", "finalize", Target(rule="r2"), "test")
        go_on(manager, lambda: past.task(third)["state"] == "done")
    assert past.task(first)["state"] == "cancelled" and not past.revisions(first)
    assert past.task(second)["state"] == "finalized"
    *_, last = past.revisions(second)
    assert (
        last["coverage"]["final"]
        and last["coverage"]["partial"]
        and last["number"] == past.task(second)["revision"]
    )
    assert past.revisions(third)[-1]["answer"] == [past.whole()]


def test_command_by_age_applies_to_older_recalls(past: History) -> None:
    old, new = past.ask(1), past.ask(2)
    past.connection.execute(
        "UPDATE tasks SET created_at = created_at - interval '1 hour' WHERE id = %s", (old,)
    )
    with past.manager() as manager:
        number = submit_command(past.connection, "a", "cancel", Target(), "test", min_age=600.0)
        go_on(manager, lambda: past.task(new)["state"] == "done")
    assert past.task(old)["state"] == "cancelled"
    done = fetch_effect(past.connection, number)
    assert done is not None and done.recalls == 1


def test_repeated_command_with_one_key_is_executed_once(past: History) -> None:
    task = past.ask(1)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["next"] > 0)
        numbers = {
            submit_command(past.connection, "k", "accelerate", Target(task=str(task)), "test")
            for _ in range(20)
        }
        assert len(numbers) == 1
        go_on(manager, lambda: fetch_effect(past.connection, *numbers) is not None)
        assert (
            submit_command(past.connection, "k", "accelerate", Target(task=str(task)), "test")
            in numbers
        )
        with pytest.raises(CommandKeyConflict):
            submit_command(past.connection, "k", "cancel", Target(task=str(task)), "test")
        assert 800 < past.task(task)["tickets"] <= 1000


# Tickets


def test_each_result_costs_tickets_down_to_one(past: History) -> None:
    plain = past.ask(1)
    many = past.ask(2, "SELECT h.v AS v, count(*) AS n FROM past h GROUP BY h.v")
    with past.manager() as manager:
        go_on(manager, lambda: past.task(many)["state"] == "done" == past.task(plain)["state"])
    assert 0 < past.task(plain)["results"] <= 20
    assert past.task(plain)["tickets"] == 100 - past.task(plain)["results"]
    assert past.task(many)["results"] > 200 and past.task(many)["tickets"] == 1


def test_results_without_ticket_cost_keep_the_tickets(past: History) -> None:
    task = past.ask(1)
    with past.manager(terms=SchedulingPolicy(tickets_per_result=0)) as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    assert past.task(task)["tickets"] == 100


# Feedback


def test_recall_is_suspended_until_feedback(past: History) -> None:
    asks, asks_nothing = past.ask(1, feedback=0.0), past.ask(2)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(asks_nothing)["state"] == "done")
        waits = past.task(asks)
        assert (
            waits["state"] == "suspended"
            and waits["next"] - waits["skipped"] == 1
            and waits["deadline"] is not None
        )
        submit_command(past.connection, "k", "refine", Target(task=str(asks)), "test")
        go_on(manager, lambda: past.task(asks)["next"] > waits["next"])
        assert past.task(asks)["state"] == "suspended"
    assert len(past.revisions(asks)) == 2


def test_feedback_timeout_finalizes_the_last_answer(past: History) -> None:
    asks, other = past.ask(1, feedback=0.0), past.ask(2)
    with past.manager(terms=SchedulingPolicy(feedback_timeout=timedelta(seconds=0.1))) as manager:
        go_on(manager, lambda: past.task(asks)["state"] == "finalized")
        go_on(manager, lambda: past.task(other)["state"] == "done")
    *_, last = past.revisions(asks)
    assert last["final"] and last["coverage"]["partial"] and last["coverage"]["read"] == 1
    assert past.task(asks)["error"] == "ended without feedback"


def test_feedback_deadline_survives_a_restart(past: History) -> None:
    task = past.ask(1, feedback=0.0)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "suspended")
    past.connection.execute("UPDATE tasks SET deadline = clock_timestamp()")
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "finalized")


# Several processes


def test_two_managers_read_each_piece_once(past: History) -> None:
    tasks = [past.ask(number, host=number % 4) for number in range(1, 7)]
    past.connection.execute("UPDATE tasks SET tickets = 1 WHERE id = %s", (tasks[0],))
    with past.manager() as one, past.manager() as two:
        one.run_once()
        late = past.ask(7, host=3)
        go_on(two, lambda: past.task(late)["state"] == "done")
        assert past.task(tasks[0])["state"] == "running"
        go_on(one, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    for number, task in enumerate([*tasks, late], start=1):
        assert past.revisions(task)[-1]["answer"] == [past.whole(number % 4)]


def test_another_manager_resumes_tasks_of_a_dead_one(past: History) -> None:
    task = past.ask(1)
    with past.manager() as dies:
        go_on(dies, lambda: past.task(task)["next"] >= 4)
    with past.manager() as lives:
        go_on(lives, lambda: past.task(task)["state"] == "done")
    assert past.revisions(task)[-1]["answer"] == [past.whole()]
    assert past.task(task)["fence"] == 2


def test_manager_resumed_after_its_lease_loses_its_task(past: History) -> None:
    task = past.ask(1)
    with past.manager() as frozen, past.manager() as other:
        go_on(frozen, lambda: past.task(task)["next"] >= 4)
        read = past.task(task)["next"]
        past.connection.execute(
            "UPDATE tasks SET lease_until = clock_timestamp() - interval '1 second'"
        )
        go_on(other, lambda: past.task(task)["fence"] == 2 and past.task(task)["next"] > read)
        before = past.task(task)
        for _ in range(3):
            frozen.run_once()
            frozen.wait_for_query()
        assert (
            past.task(task)["lease"] == before["lease"]
            and past.task(task)["fence"] == before["fence"]
        )
        go_on(other, lambda: past.task(task)["state"] == "done")
    assert past.revisions(task)[-1]["answer"] == [past.whole()]


# Order


def _learn(past: History) -> None:
    task = past.ask(100)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    while past.keys.index_next_file():
        pass


@pytest.mark.parametrize("order", ["newest", "promising", "mixed"])
def test_chunk_without_the_key_is_not_read(past: History, order: Order) -> None:
    _learn(past)
    task = past.ask(1, host=HOSTS, order=order)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    revision = past.revisions(task)[-1]
    coverage, whole = revision["coverage"], len(past.task(task)["pieces"])
    assert revision["answer"] == [past.whole(HOSTS)] and past.whole(HOSTS)["n"] == 25
    assert (coverage["read"], coverage["by_summary"]) == (1, whole - 1)
    assert coverage["final"] and not coverage["partial"] and coverage["read_from"] is None


def test_key_without_history_is_answered_without_reading(past: History) -> None:
    _learn(past)
    task = past.ask(1, host=77)
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    (revision,) = past.revisions(task)
    assert revision["answer"] == [{"n": 0, "total": None}] and revision["coverage"]["read"] == 0


def test_most_promising_chunk_is_read_first(past: History) -> None:
    _learn(past)
    task = past.ask(1, host=1, order="promising")
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    rows = past.task(task)
    per_chunk = [
        sum(
            1
            for second, host, _ in past.rows
            if host == "h1" and (low or 0) <= to_micros(START) + second * 10**6 < high
        )
        for _, low, high in rows["pieces"][rows["skipped"] :]
    ]
    assert per_chunk == sorted(per_chunk, reverse=True)
    assert past.revisions(task)[-1]["answer"] == [past.whole(1)]


# What cannot be read


def test_damaged_file_has_unknown_key_counts(past: History) -> None:
    """A file without the column has no keys; a damaged log stops nothing."""
    _learn(past)
    learned = dict(past.keys._counts_by_file)
    try:
        (newest, column), *_ = learned
        past.keys._counts_by_file.clear()
        healthy = Path(newest).read_bytes()
        pq.write_table(pa.table({"other": [1]}), newest)
        assert past.keys.index_next_file() and past.keys._counts_by_file == {(newest, column): {}}
        past.keys._counts_by_file.clear()
        Path(newest).write_bytes(b"PAR1")
        assert past.keys.index_next_file() and past.keys._counts_by_file == {(newest, column): None}
        past.keys._counts_by_file["gone", column] = {}
        while past.keys.index_next_file():
            pass
        assert past.keys._counts_by_file == {**learned, (newest, column): None}
        with pytest.MonkeyPatch.context() as damaged:
            damaged.setattr(Reader, "refresh", _damaged)
            assert not past.keys.index_next_file()
    finally:
        Path(newest).write_bytes(healthy)
        past.keys._counts_by_file = learned


def _damaged(reader: Reader, streams: object) -> None:
    raise LogDamaged("cannot be read")


def test_invalid_task_fails_alone(past: History) -> None:
    """A removed stream, a request of another format: these fail, other tasks continue."""
    stream, shape, fine = past.ask(1, rule="g/stream"), past.ask(2, rule="g/shape"), past.ask(3)
    past.connection.execute(
        """UPDATE tasks SET request = replace(request::text, 'past', 'gone')::jsonb WHERE id = %s""",
        (stream,),
    )
    past.connection.execute(
        "UPDATE tasks SET request = request || '{\"older\": 1}' WHERE id = %s", (shape,)
    )
    with past.manager() as manager:
        go_on(manager, lambda: past.task(fine)["state"] == "done")
    for task, reason in (stream, "gone"), (shape, "older"):
        assert past.task(task)["state"] == "failed" and reason in past.task(task)["error"]


def test_tasks_compared_together_fail_individually(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = SimilarQuestion(None, 0.0, "newest", ("processes",), 3, TfIdfMeasure.name, 0)
    events = [RecallEvent(UUID(int=number), to_micros(START), {}, {}) for number in (1, 2, 3)]
    Ledger(past.connection).add(
        [RecallRequest("g/r", "1", "similar", question, asked, 0) for asked in events]
    )
    first, odd, last = (task_id("g/r", "1", "similar", asked.eid) for asked in events)

    def compare(
        index: Index, states: Sequence[SimilarState], spans: Sequence[TimeRange]
    ) -> list[tuple[int, bool]]:
        found = real(index, states, spans)
        if any(state.comparison.event.eid == str(events[1].eid) for state in states):
            raise ValueError("odd")
        return found

    real = recall.worker.comparisons.compare
    monkeypatch.setattr(recall.worker.comparisons, "compare", compare)
    # Nothing is alike here: that is not looked at beforehand.
    monkeypatch.setattr(
        SimilarState,
        "pieces_without_matches",
        lambda _, spans: [False] * len(spans),
    )
    with past.manager() as manager:
        go_on(
            manager,
            lambda: all(
                past.task(task)["state"] in ("done", "failed") for task in (first, odd, last)
            ),
        )
    assert [past.task(task)["state"] for task in (first, odd, last)] == ["done", "failed", "done"]
    assert past.task(odd)["error"] == "odd"


def test_comparison_restarts_after_context_or_corpus_changes(past: History) -> None:
    question = SimilarQuestion(None, 0.0, "newest", ("processes",), 3, TfIdfMeasure.name, 0)
    events = [
        RecallEvent(UUID(int=number), to_micros(START) + number, {}, {}) for number in (1, 2, 3)
    ]
    ledger = Ledger(past.connection)
    ledger.add([RecallRequest("g/r", "1", "similar", question, asked, 0) for asked in events])
    tasks = [task_id("g/r", "1", "similar", asked.eid) for asked in events]
    past.connection.execute("UPDATE tasks SET state = 'done', corpus = 5")

    def waiting() -> list[bool]:
        return [past.task(task)["state"] == "waiting" for task in tasks]

    ledger.restart_comparisons([(events[0].eid, "1"), (events[1].eid, "0")])
    assert waiting() == [True, False, False]
    past.connection.execute(
        "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, corpus) "
        "SELECT rule, version, eid, %s, '{}', '{}', true, 6 FROM tasks WHERE id = %s",
        (START + timedelta(microseconds=2), tasks[1]),
    )
    try:
        ledger.restart_incomplete_comparisons("g/r", "1", events[1].ts)
    finally:
        past.connection.execute("TRUNCATE contexts")
    assert waiting() == [True, False, True]


def test_recall_without_history_is_answered(past: History) -> None:
    task = past.ask(1)
    past.connection.execute("UPDATE tasks SET event = jsonb_set(event, '{ts}', '0')")
    past.connection.execute("UPDATE tasks SET pieces = '[]'")
    with past.manager() as manager:
        go_on(manager, lambda: past.task(task)["state"] == "done")
    (revision,) = past.revisions(task)
    assert revision["answer"] == [{"n": 0, "total": None}]


# Conditions


def _alert(past: History, task: UUID, state: str) -> Any:
    past.connection.execute(
        """INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, last_at,
        events) VALUES (%(eid)s, %(eid)s, %(rule)s, '1', %(eid)s, '{}', '{}', '{}', %(state)s, now(), now(), 1)""",
        {"eid": past.task(task)["eid"], "rule": past.task(task)["rule"], "state": state},
    )
    return past.task(task)["eid"]


def test_condition_of_a_stopped_rule_passes_without_history(past: History) -> None:
    """For a running rule the recall may still start; withdrawn alerts are not decided."""
    judged = {"where": "norm.n > 0", "judged": {"norm": {"n": "bigint"}, "other": {"n": "bigint"}}}
    rules = ("g/gone", "g/live", "g/withdrawn")
    tasks = [past.ask(number, rule=rule, **judged) for number, rule in enumerate(rules, 1)]
    states = ("firing", "firing", "withdrawn")
    eids = [_alert(past, task, state) for task, state in zip(tasks, states, strict=True)]
    past.connection.execute(
        "INSERT INTO deployments (rule, version, state) VALUES ('g/live', '1', 'running')"
    )

    def verdicts() -> list[str | None]:
        found = dict(past.connection.execute("SELECT eid, verdict FROM alerts").fetchall())
        return [found[eid] for eid in eids]

    try:
        with past.manager() as manager:
            go_on(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
            assert verdicts() == [None, None, None]
            go_on(manager, lambda: verdicts()[0] is not None)
        assert verdicts() == ["no history", None, None]
    finally:
        past.connection.execute("TRUNCATE alerts, deployments CASCADE")


def test_transaction_aborted_by_a_deadlock_is_retried() -> None:
    tries: list[int] = []

    def change() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise DeadlockDetected
        return len(tries)

    assert retry_on_deadlock(change) == 2


# Storms, and what needs too much


def test_every_task_gets_a_first_answer_before_any_second(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recall.worker.claims._MAX_TASKS_PER_LEVEL", 6)
    monkeypatch.setattr("recall.worker.claims._MAX_TASKS_PER_RULE", 4)
    monkeypatch.setattr("recall.worker.claims._CHECK_INTERVAL", 0.0)
    storm = [
        past.ask(number, f"{COUNT} AND h.v >= {number} - {number}", rule="g/storm")
        for number in range(1, 31)
    ]
    other = past.ask(99, rule="g/other")
    with past.manager() as manager:
        most = 0

        def answered() -> bool:
            nonlocal most
            at_work = past.connection.execute(
                "SELECT count(*) FROM tasks WHERE state = 'running'"
            ).fetchone()
            most = max(most, at_work[0] if at_work else 0)
            return all(past.task(task)["revision"] > 0 for task in storm)

        go_on(manager, answered)
        assert most <= 6 and past.task(other)["revision"] > 0
        assert sum(past.task(task)["state"] == "done" for task in storm) < 15
        go_on(
            manager,
            lambda: all(past.task(task)["state"] == "done" for task in [*storm, other]),
            120,
        )
    assert all(past.revisions(task)[-1]["answer"] == [past.whole()] for task in [*storm, other])


def test_recall_that_repeatedly_exceeds_its_limits_is_quarantined(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recall.operators.limits.MAX_ROWS", 30)
    monkeypatch.setattr("recall.worker.claims._CHECK_INTERVAL", 0.0)
    groups = "SELECT h.ts AS t, count(*) AS n FROM past h GROUP BY h.ts"
    with past.manager() as manager:
        for number in range(1, 5):
            task = past.ask(number, groups, rule="g/greedy")
            go_on(manager, lambda task=task: past.task(task)["state"] == "failed")
        fine = past.ask(1, rule="g/fine")
        go_on(manager, lambda: past.task(fine)["state"] == "done")
    assert (
        "needed too much memory or time" in past.task(task)["error"]
        and past.task(task)["seconds"] == 0
    )


def test_query_over_its_time_limit_is_cancelled_and_fails(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        if any(one.template.question.sql != COUNT for one in asks):
            engine._duckdb.run(ENDLESS)
        return real(engine, asks)

    real = LocalEngine.compute_partials
    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    endless, fine = past.ask(1, f"{COUNT} AND h.v > -1", rule="g/endless"), past.ask(2)
    with past.manager(workers=2, stuck=0.3) as manager:
        go_on(manager, lambda: past.task(endless)["state"] == "failed")
        go_on(manager, lambda: past.task(fine)["state"] == "done")
    assert past.task(endless)["exceeded"] and "too much" in past.task(endless)["error"]


def test_task_that_crashes_processes_fails_after_some_attempts(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, end = threading.Event(), threading.Event()

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        if all(one.template.question.sql == COUNT for one in asks):
            return real(engine, asks)
        began.set()
        end.wait(60)
        return [{} for _ in asks]

    real = LocalEngine.compute_partials
    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    deadly = past.ask(1, f"{COUNT} AND h.v > -1")
    for _ in range(MAX_ATTEMPTS):
        began.clear()
        with past.manager() as dies:
            go_on(dies, began.is_set)
    fine = past.ask(2)
    with past.manager() as lives:
        go_on(
            lives,
            lambda: past.task(fine)["state"] == "done" and past.task(deadly)["state"] == "failed",
        )
    end.set()
    assert past.task(deadly)["exceeded"] and past.task(deadly)["tries"] == 0
    assert past.task(fine)["fence"] == 1


def test_tasks_of_killed_processes_are_attempted_first(past: History) -> None:
    """So a task progresses before the next kill, and does not fail for being present at three
    kills.
    """
    tasks = [past.ask(number, f"{COUNT} AND h.v > -{number}") for number in range(1, 9)]
    with past.manager() as manager:
        go_on(manager, lambda: all(past.task(task)["revision"] for task in tasks))
    unlucky = {tasks[5]: 2, tasks[2]: 1}
    for task, tries in unlucky.items():
        past.connection.execute(
            "UPDATE tasks SET state = 'waiting', tries = %s WHERE id = %s", (tries, task)
        )
    before = {task: past.task(task)["next"] for task in tasks}
    past.connection.execute(
        "UPDATE tasks SET state = 'waiting', lease = NULL WHERE state = 'running'"
    )
    with past.manager() as manager:
        for task in unlucky:
            go_on(manager, lambda: any(past.task(one)["next"] > before[one] for one in tasks))
            assert [one for one in tasks if past.task(one)["next"] > before[one]] == [task]
            assert past.task(task)["tries"] == 0
            before[task] = past.task(task)["next"]


def test_orderly_shutdown_charges_no_task(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    began, end = threading.Event(), threading.Event()

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        began.set()
        end.wait(60)
        return [{} for _ in asks]

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    task = past.ask(1)
    with past.manager() as manager:
        go_on(manager, began.is_set)
        assert past.task(task)["asked_at"] is not None
        stop = threading.Event()
        stop.set()
        manager.run(stop, lambda: None)
    end.set()
    left = past.task(task)
    assert (left["state"], left["tries"], left["asked_at"]) == ("waiting", 0, None)


def test_query_of_cancelled_tasks_is_cancelled(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = threading.Event(), threading.Event()

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        began.set()
        try:
            engine._duckdb.run(ENDLESS)
        finally:
            ended.set()

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    task = past.ask(1)
    with past.manager() as manager:
        go_on(manager, began.is_set)
        submit_command(past.connection, "k", "cancel", Target(task=str(task)), "test")
        go_on(manager, ended.is_set)
    assert past.task(task)["state"] == "cancelled"
