"""Threads whose result is awaited."""

import threading

import pytest

from archiver.threads import start_thread


def test_thread_returns_the_result_of_its_work() -> None:
    future = start_thread(lambda: (threading.current_thread().name, 3), "work")
    assert future.result(10) == ("work", 3)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_error_of_the_work_is_raised_where_it_is_awaited(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        start_thread(fail, "work").result(10)
