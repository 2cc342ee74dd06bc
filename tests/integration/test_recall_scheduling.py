"""Which task is served next, and which chunk it reads first: tickets, first answers, key counts."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archiver.errors import LogDamaged
from archiver.read.reader import Reader
from archiver.times import to_micros
from recall.ledger.tasks import SchedulingPolicy
from recall.requests import Order
from tests.integration.history import COUNT, HOSTS, START, History, run_until


def test_each_result_costs_tickets_down_to_one(past: History) -> None:
    one_group = past.add_task(1)
    many_groups = past.add_task(2, "SELECT h.v AS v, count(*) AS n FROM past h GROUP BY h.v")
    with past.manager() as manager:
        run_until(
            manager,
            lambda: past.task(many_groups)["state"] == "done" == past.task(one_group)["state"],
        )
    assert 0 < past.task(one_group)["results"] <= 20
    assert past.task(one_group)["tickets"] == 100 - past.task(one_group)["results"]
    assert past.task(many_groups)["results"] > 200 and past.task(many_groups)["tickets"] == 1


def test_results_without_ticket_cost_keep_the_tickets(past: History) -> None:
    task = past.add_task(1)
    with past.manager(policy=SchedulingPolicy(tickets_per_result=0)) as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    assert past.task(task)["tickets"] == 100


@pytest.mark.slow
def test_every_task_gets_a_first_answer_before_any_second(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recall.worker.claims._MAX_TASKS_PER_LEVEL", 6)
    monkeypatch.setattr("recall.worker.claims._MAX_TASKS_PER_RULE", 4)
    monkeypatch.setattr("recall.worker.claims._CHECK_INTERVAL", 0.0)
    storm = [
        past.add_task(number, f"{COUNT} AND h.v >= {number} - {number}", rule="g/storm")
        for number in range(1, 31)
    ]
    other = past.add_task(99, rule="g/other")
    with past.manager() as manager:
        max_running = 0

        def answered() -> bool:
            nonlocal max_running
            running = past.connection.execute(
                "SELECT count(*) FROM tasks WHERE state = 'running'"
            ).fetchone()
            max_running = max(max_running, running[0] if running else 0)
            return all(past.task(task)["revision"] > 0 for task in storm)

        run_until(manager, answered)
        assert max_running <= 6 and past.task(other)["revision"] > 0
        assert sum(past.task(task)["state"] == "done" for task in storm) < 15
        run_until(
            manager,
            lambda: all(past.task(task)["state"] == "done" for task in [*storm, other]),
            120,
        )
    assert all(
        past.revisions(task)[-1]["answer"] == [past.expected_answer()] for task in [*storm, other]
    )


def _index_keys(past: History) -> None:
    task = past.add_task(100)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    while past.key_counts.index_next_file():
        pass


@pytest.mark.parametrize("order", ["newest", "promising", "mixed"])
def test_chunk_without_the_key_is_not_read(past: History, order: Order) -> None:
    _index_keys(past)
    task = past.add_task(1, host=HOSTS, order=order)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    revision = past.revisions(task)[-1]
    coverage, piece_count = revision["coverage"], len(past.task(task)["pieces"])
    assert (
        revision["answer"] == [past.expected_answer(HOSTS)]
        and past.expected_answer(HOSTS)["n"] == 25
    )
    assert (coverage["read"], coverage["by_summary"]) == (1, piece_count - 1)
    assert coverage["final"] and not coverage["partial"] and coverage["read_from"] is None


def test_key_without_history_is_answered_without_reading(past: History) -> None:
    _index_keys(past)
    task = past.add_task(1, host=77)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    (revision,) = past.revisions(task)
    assert revision["answer"] == [{"n": 0, "total": None}] and revision["coverage"]["read"] == 0


def test_most_promising_chunk_is_read_first(past: History) -> None:
    _index_keys(past)
    task = past.add_task(1, host=1, order="promising")
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
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
    assert past.revisions(task)[-1]["answer"] == [past.expected_answer(1)]


def test_damaged_file_has_unknown_key_counts(past: History) -> None:
    """A file without the column has no keys; a damaged log stops nothing."""
    _index_keys(past)
    indexed_counts = dict(past.key_counts._counts_by_file)
    try:
        (newest, column), *_ = indexed_counts
        past.key_counts._counts_by_file.clear()
        healthy = Path(newest).read_bytes()
        pq.write_table(pa.table({"other": [1]}), newest)
        assert past.key_counts.index_next_file() and past.key_counts._counts_by_file == {
            (newest, column): {}
        }
        past.key_counts._counts_by_file.clear()
        Path(newest).write_bytes(b"PAR1")
        assert past.key_counts.index_next_file() and past.key_counts._counts_by_file == {
            (newest, column): None
        }
        past.key_counts._counts_by_file["gone", column] = {}
        while past.key_counts.index_next_file():
            pass
        assert past.key_counts._counts_by_file == {**indexed_counts, (newest, column): None}
        with pytest.MonkeyPatch.context() as damaged:
            damaged.setattr(Reader, "refresh", _raise_damaged)
            assert not past.key_counts.index_next_file()
    finally:
        Path(newest).write_bytes(healthy)
        past.key_counts._counts_by_file = indexed_counts


def _raise_damaged(reader: Reader, streams: object) -> None:
    raise LogDamaged("cannot be read")
