"""Queries that follow: each row counts once, before or after the end of history."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from recall.worker import live_rows
from recall.worker.manager import RecallManager
from tests.integration.history import START, History, history, run_until, without_tasks

ALL = "SELECT host, count(*) AS n, sum(v) AS total FROM past GROUP BY host"
ROWS = "SELECT ts, host, v FROM past ORDER BY ts DESC LIMIT 100000"


@pytest.fixture(scope="module")
def archived() -> Iterator[History]:
    with history(chunks=6, rows=40) as past:
        yield past


@pytest.fixture
def past(archived: History, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setattr(live_rows, "_INTERVAL", 0.0)
    return without_tasks(archived)


def expected_groups(past: History) -> dict[str, tuple[int, int]]:
    values: dict[str, list[int]] = {}
    for _, host, v in past.rows:
        values.setdefault(host, []).append(v)
    return {host: (len(found), sum(found)) for host, found in values.items()}


def groups(revision: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {row["host"]: (row["n"], row["total"]) for row in revision["answer"]}


def rows(revisions: list[dict[str, Any]]) -> Counter[tuple[str, str, int]]:
    """The rows of the answer over history, and all that were appended."""
    whole = [revision for revision in revisions if not revision["coverage"].get("appends")]
    appended = [revision for revision in revisions if revision["coverage"].get("appends")]
    found: Counter[tuple[str, str, int]] = Counter()
    for revision in [whole[-1], *appended]:
        found.update((row["ts"], row["host"], row["v"]) for row in revision["answer"])
    return found


def expected_rows(past: History) -> Counter[tuple[str, str, int]]:
    found: Counter[tuple[str, str, int]] = Counter()
    for second, host, v in past.rows:
        ts = START.timestamp() + second
        found[f"{_format(ts)}", host, v] += 1
    return found


def _format(seconds: float) -> str:
    from datetime import UTC, datetime

    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def has_read_history(past: History, task: UUID) -> Callable[[], bool]:
    def check() -> bool:
        row = past.task(task)
        return row["pieces"] is not None and row["next"] == len(row["pieces"]) > 0

    return check


def more_rows(past: History, rng: random.Random, late: bool) -> list[tuple[int, str, int]]:
    """Rows after the newest one, and late ones into all chunks."""
    newest = max(second for second, _, _ in past.rows)
    first = 1000 + len(past.rows)  # no two rows are equal
    new_rows = [(newest + 1 + n, f"h{rng.randrange(4)}", first + n) for n in range(7)]
    if late:
        new_rows += [(rng.randrange(newest), "late", first + 10_000 + n) for n in range(5)]
    return new_rows


def run_and_archive(manager: RecallManager, past: History, task: UUID, seed: int) -> None:
    """Archive rows before, between and after the history queries of a task."""
    rng = random.Random(seed)
    for _ in range(6):
        past.archive_rows(more_rows(past, rng, late=True))
        for _ in range(rng.randrange(3)):
            manager.run_once()
            manager.wait_for_query()
    run_until(manager, has_read_history(past, task))
    past.archive_rows(more_rows(past, rng, late=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_aggregates_count_each_row_once_across_the_seam(past: History, seed: int) -> None:
    task = past.add_task(1, ALL, rule="query", follow=True)
    with past.manager() as manager:
        run_and_archive(manager, past, task, seed)
        run_until(manager, lambda: groups(past.revisions(task)[-1]) == expected_groups(past))
        past.archive_rows(more_rows(past, random.Random(seed), late=True))
        run_until(manager, lambda: groups(past.revisions(task)[-1]) == expected_groups(past))
        revision = past.revisions(task)[-1]
        assert not revision["final"] and not revision["coverage"]["partial"]
        assert past.task(task)["state"] == "running"


@pytest.mark.parametrize("seed", [3, 4])
def test_plain_rows_are_appended_once_across_the_seam(past: History, seed: int) -> None:
    task = past.add_task(1, ROWS, rule="query", follow=True)
    with past.manager() as manager:
        run_and_archive(manager, past, task, seed)
        run_until(manager, lambda: rows(past.revisions(task)) == expected_rows(past))
        past.archive_rows(more_rows(past, random.Random(seed), late=False))
        run_until(manager, lambda: rows(past.revisions(task)) == expected_rows(past))
    numbers = [revision["number"] for revision in past.revisions(task)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_another_process_continues_a_query_that_follows(past: History) -> None:
    task = past.add_task(1, ALL, rule="query", follow=True)
    with past.manager() as first:
        run_and_archive(first, past, task, 5)
        run_until(first, lambda: groups(past.revisions(task)[-1]) == expected_groups(past))
    past.archive_rows(more_rows(past, random.Random(6), late=True))
    with past.manager() as second:
        run_until(second, lambda: groups(past.revisions(task)[-1]) == expected_groups(past))
    assert past.task(task)["fence"] == 2


def test_clustered_files_do_not_repeat_rows(past: History) -> None:
    task = past.add_task(1, ALL, rule="query", follow=True)
    with past.manager() as manager:
        run_until(manager, has_read_history(past, task))
        past.archive_rows(more_rows(past, random.Random(7), late=True))
        table = past.archive.tables["past"]
        for chunk in list(table.files_by_chunk()):
            table.cluster(chunk)
        run_until(manager, lambda: groups(past.revisions(task)[-1]) == expected_groups(past))
        numbers = len(past.revisions(task))
        for _ in range(5):
            manager.run_once()
            manager.wait_for_query()
        assert len(past.revisions(task)) == numbers


def test_cancelled_query_reads_no_more(past: History) -> None:
    task = past.add_task(1, ALL, rule="query", follow=True)
    with past.manager() as manager:
        run_until(manager, has_read_history(past, task))
        past.connection.execute("UPDATE tasks SET state = 'cancelled', ended_at = now()")
        past.archive_rows(more_rows(past, random.Random(8), late=False))
        run_until(manager, lambda: not manager._active_tasks.tasks)
    assert past.task(task)["live_appends"] is None or past.task(task)["state"] == "cancelled"


def test_newest_rows_are_complete_before_all_chunks_are_read(past: History) -> None:
    task = past.add_task(1, "SELECT ts, host, v FROM past ORDER BY ts DESC LIMIT 5", rule="query")
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    revision = past.revisions(task)[-1]
    newest = sorted(past.rows, key=lambda row: row[0])[-5:]
    assert {row["v"] for row in revision["answer"]} == {v for _, _, v in newest}
    assert revision["coverage"]["left"] > 0
    assert revision["final"] and not revision["coverage"]["partial"]
