"""When processes that ended by errors are a crash loop, and what is said about them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moirae.inspect.restarts import describe_exit, find_crash_loops, summarize_exits
from sql.processes import ProcessExitRow

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def _exit(minutes_ago: float, epoch: int | None = 1, **details: Any) -> ProcessExitRow:
    values = {"exit_code": 70, "signal": None, "error": "ArrowInvalid: broken", **details}
    return ProcessExitRow(
        role="live",
        epoch=epoch,
        pid=1,
        started_at=_ago(minutes_ago + 1),
        ended_at=_ago(minutes_ago),
        **values,
    )


def _process(role: str, started: float, epoch: int = 5, state: str = "running") -> dict[str, Any]:
    alive = state not in ("ended", "failed")
    return {
        "role": role,
        "epoch": epoch,
        "started_at": _ago(started),
        "state": state,
        "alive": alive,
    }


UP = _process("up", 600)


@pytest.mark.parametrize(
    ("exits", "live", "is_loop"),
    [
        ([_exit(5, 4)], _process("live", 4.9), True),
        ([_exit(15, 4)], _process("live", 10.1), False),
        ([_exit(0.1, 5)], _process("live", 30), True),  # no successor yet
        ([_exit(0.1, None)], _process("live", 30), True),
        ([_exit(20, None)], _process("live", 19), False),
        ([_exit(20, 4), _exit(30, 3), _exit(59, 2)], _process("live", 19), True),
        ([_exit(20, 4), _exit(30, 3), _exit(61, 2)], _process("live", 19), False),
        # The workspace was stopped in order since.
        ([_exit(5, 4)], _process("live", 4.9, state="ended"), False),
        # It was stopped in order and started again since.
        ([_exit(5, 3)], _process("live", 1), False),
    ],
)
def test_crash_loop_lasts_until_a_process_works_for_ten_minutes(
    exits: list[ProcessExitRow], live: dict[str, Any], is_loop: bool
) -> None:
    (restart,) = summarize_exits(exits, [UP, live], NOW)
    assert restart["is_crash_loop"] is is_loop
    assert bool(list(find_crash_loops([restart]))) is is_loop


def test_process_that_nothing_restarts_is_in_no_loop() -> None:
    (restart,) = summarize_exits([_exit(0.1, 5)], [_process("live", 30, state="failed")], NOW)
    assert not restart["is_crash_loop"]


def test_ends_in_order_do_not_count() -> None:
    assert summarize_exits([_exit(1, exit_code=0)], [UP], NOW) == []


def test_problem_names_number_time_and_reason() -> None:
    exits = [_exit(1, 4), _exit(2, 3), _exit(90, 2)]
    restarts = summarize_exits(exits, [UP, _process("live", 0.9)], NOW)
    assert (restarts[0]["last_hour"], restarts[0]["last_day"]) == (2, 3)
    assert list(find_crash_loops(restarts)) == [
        "the live process ended by an error 2 times within an hour, last at 2026-01-01 11:59:00Z: "
        "exit code 70: ArrowInvalid: broken: check its log; status is OK again at 12:09:06Z if the "
        "process works until then"
    ]


@pytest.mark.parametrize(
    ("exits", "live", "ends_at"),
    [
        ([_exit(5, 4)], _process("live", 4), _ago(-6)),
        ([_exit(20, 4), _exit(30, 3), _exit(59, 2)], _process("live", 19), _ago(-1)),
        ([_exit(3, 4), _exit(30, 3), _exit(59, 2)], _process("live", 2), _ago(-8)),
        ([_exit(3, 4), _exit(4, 3), _exit(5, 2)], _process("live", 2), _ago(-55)),
        ([_exit(15, 4)], _process("live", 10.1), None),  # it is over
        ([_exit(0.1, 5)], _process("live", 30), None),  # no successor yet
    ],
)
def test_end_of_a_crash_loop_is_when_the_status_is_ok_again(
    exits: list[ProcessExitRow], live: dict[str, Any], ends_at: datetime | None
) -> None:
    (restart,) = summarize_exits(exits, [UP, live], NOW)
    assert restart["ends_at"] == ends_at
    if ends_at is None:
        return
    before = ends_at - timedelta(seconds=1)
    assert summarize_exits(exits, [UP, live], before)[0]["is_crash_loop"]
    assert not summarize_exits(exits, [UP, live], ends_at)[0]["is_crash_loop"]


def test_problem_of_a_process_that_does_not_run_yet_says_what_ends_it() -> None:
    restarts = summarize_exits([_exit(0.1, 5)], [UP, _process("live", 30)], NOW)
    (problem,) = find_crash_loops(restarts)
    assert problem.endswith("; status is OK again once the process has worked for 10 minutes")


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({"error": None}, "exit code 70"),
        ({"exit_code": None, "signal": 9, "error": None}, "killed by signal 9"),
        ({"error": "first\nsecond"}, "exit code 70: first"),
        (
            {"exit_code": None, "error": None},
            "it ended without storing a reason, perhaps killed",
        ),
        ({"exit_code": None}, "ArrowInvalid: broken"),
    ],
)
def test_reason_is_one_line(details: dict[str, Any], text: str) -> None:
    assert describe_exit(_exit(1, **details)) == text
