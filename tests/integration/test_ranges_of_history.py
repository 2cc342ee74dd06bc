"""Recalls over ranges of history, by the manager: what they open, cover and answer."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from archiver.times import to_micros
from moirae.runtime import storage
from recall.history_ranges import Season
from recall.replay.outcome import replay
from recall.replay.sql_answers import SqlReplayer
from tests.integration.history import (
    SCHEMA,
    START,
    History,
    history,
    no_relations,
    run_until,
    without_tasks,
)
from tests.unit.recall.test_history_ranges import belongs

pytestmark = pytest.mark.services

_STEP = 1_200  # seconds
_DAY = 86_400_000_000  # microseconds
_CHUNKS = 48  # of six hours: twelve days
_SEASON = Season("hour_of_day", "Asia/Kathmandu", 3_600_000_000)
_WHOLE = (
    "SELECT count(*) AS n, sum(x.v) AS total FROM (SELECT DISTINCT ts, v, host FROM past) x "
    "WHERE x.host = event.host"
)


@pytest.fixture(scope="module")
def twelve_days() -> Iterator[History]:
    with history(_CHUNKS, 18, step=_STEP) as new_history:
        yield new_history


def _expect(past: History, first: int, end: int) -> dict[str, int | None]:
    """The answer over the rows of event times in [first, end), by the clock."""
    event_ts = to_micros(START + timedelta(seconds=len(past.rows) * _STEP))
    values = []
    for second, host, v in past.rows:
        ts = to_micros(START + timedelta(seconds=second))
        if first <= ts < end and host == "h0" and belongs(ts, event_ts, _SEASON):
            values.append(v)
    return {"n": len(values), "total": sum(values) if values else None}


@pytest.mark.parametrize("is_whole", [False, True])
def test_each_revision_is_exact_over_the_chunks_that_it_opens(
    is_whole: bool, twelve_days: History, spark: SparkSession
) -> None:
    past = without_tasks(twelve_days)
    options: dict[str, Any] = {"range": 10 * _DAY, "offset": _DAY, "season": _SEASON.to_json()}
    if is_whole:
        options["sql"] = _WHOLE
    task = past.add_task(1, **options)
    with past.manager(session=spark.newSession) as manager:
        run_until(manager, lambda: past.task(task)["ended_at"] is not None)
    assert past.task(task)["error"] is None
    end = to_micros(START + timedelta(seconds=len(past.rows) * _STEP)) - _DAY
    revisions = past.revisions(task)
    assert len(revisions) > 1
    for revision in revisions:
        coverage = revision["coverage"]
        (row,) = revision["answer"]
        expected = _expect(past, coverage["read_from"], coverage["read_to"])
        assert {name: row[name] for name in ("n", "total")} == expected
    final = revisions[-1]["coverage"]
    # The event is at midnight UTC: of each day, the last chunk and the first one of the next. A chunk
    # ends just past its last row.
    assert (final["read"] + final["by_summary"], final["left"], final["ranges"]) == (19, 0, 10)
    assert (final["asked_to"], final["final"], final["partial"]) == (end, True, False)
    assert _expect(past, 0, end)["n"] != 0
    reads = [read for read in past.task(task)["seen"] if read[2] is not None]
    assert reads[-1][1] == 19


def test_answer_over_ranges_is_computed_again(twelve_days: History, spark: SparkSession) -> None:
    past = without_tasks(twelve_days)
    task = past.add_task(1, range=10 * _DAY, season=_SEASON.to_json())
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    root = storage.open_storage(past.settings)
    replayer = SqlReplayer(past.connection, root, [SCHEMA], spark.newSession, no_relations)
    (replayed,) = replay(past.connection, task, {"sql": replayer})
    assert (replayed.equal, replayed.why) == (True, None)
