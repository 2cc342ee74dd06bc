"""Which rows a query that follows has not read yet."""

from typing import Any

from archiver.time_range import TimeRange
from recall.engines import Template
from recall.requests import SqlQuestion
from recall.worker.active_tasks import ActiveTask
from recall.worker.live_rows import find_live_rows, unchanged_result
from sql.recalls import Read
from tests.unit.recall.worker.test_active_tasks import PIECES, task

QUESTION = SqlQuestion(
    None, 1.0, "newest", "SELECT count(*) AS n FROM s", {"s": "ts"}, (), {}, {}, {}, {}, follow=True
)
END = 50


def following(**changes: Any) -> ActiveTask:
    """A task that has read its four pieces."""
    event = {"ts": END, "key": {}, "attributes": {}}
    claimed = task(next=4, revision=2, event=event, **changes)
    return ActiveTask(claimed, Template(QUESTION), "question")


def ranges(active_task: ActiveTask, reads: list[Read]) -> dict[TimeRange, int]:
    (rows_after,) = find_live_rows(active_task, reads).values()
    return dict(rows_after.ranges)


def test_rows_after_the_appends_that_each_piece_was_read_with_are_live() -> None:
    reads = [Read(0, 1, {"s": 7}), Read(1, 3, {"s": 8}), Read(3, 4, {"s": 9})]
    assert ranges(following(), reads) == {
        TimeRange(END, None): 0,
        TimeRange(40, 50): 7,
        TimeRange(30, 40): 8,
        TimeRange(10, 20): 8,
        TimeRange(None, 10): 9,
    }


def test_rows_after_the_last_read_of_live_rows_are_live() -> None:
    reads = [Read(0, 4, {"s": 7})]
    assert set(ranges(following(live_appends={"s": 12}), reads).values()) == {12}


def test_rows_of_failed_pieces_are_left_out() -> None:
    reads = [Read(0, 1, {"s": 7}), Read(1, 4, None)]
    assert ranges(following(), reads) == {TimeRange(END, None): 0, TimeRange(40, 50): 7}


def test_result_without_rows_changes_nothing() -> None:
    result = unchanged_result(following(partial_answer=b"held"), statistics=None)  # type: ignore[arg-type]
    assert (result.next, result.partial_answer, result.state) == (len(PIECES), b"held", "running")
    assert result.revision is None and result.live_appends is None
