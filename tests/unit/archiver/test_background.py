import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from archiver.background import BackgroundRunner
from archiver.periodic import Periodic

TIMEOUT = 20.0  # seconds


@contextmanager
def running(*periodics: Periodic) -> Iterator[BackgroundRunner]:
    runner = BackgroundRunner(periodics)
    try:
        yield runner
    finally:
        runner.stop()


def test_periodic_action_runs_again_and_again_in_one_thread() -> None:
    threads: set[int] = set()
    runs = threading.Semaphore(0)

    def act() -> None:
        threads.add(threading.get_ident())
        runs.release()

    with running(Periodic("act", 0.01, act)):
        for _ in range(3):
            assert runs.acquire(timeout=TIMEOUT)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_periodic_action_continues_after_an_error() -> None:
    runs = threading.Semaphore(0)

    def fail() -> None:
        runs.release()
        raise ValueError("no")

    with running(Periodic("fail", 0.01, fail)):
        for _ in range(3):
            assert runs.acquire(timeout=TIMEOUT)


def test_first_run_waits() -> None:
    runs = threading.Event()
    with running(Periodic("later", 600.0, runs.set, first_after=600.0)):
        assert not runs.wait(0.1)


def test_submitted_actions_run_in_order() -> None:
    results: list[int] = []
    end = threading.Event()
    with running() as runner:
        for number in range(5):
            runner.submit(results.append, number)
        runner.submit(end.set)
        assert end.wait(TIMEOUT)
    assert results == [0, 1, 2, 3, 4]


def test_queued_actions_do_not_start_after_stop() -> None:
    is_running, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    results: list[int] = []

    def block() -> None:
        threads.append(threading.current_thread())
        is_running.set()
        release.wait(TIMEOUT)

    with running() as runner:
        runner.submit(block)
        for number in range(2):
            runner.submit(results.append, number)
        assert is_running.wait(TIMEOUT)
        while runner._scheduler.get_jobs():  # until both wait for the thread
            time.sleep(0.01)
    release.set()
    threads[0].join(TIMEOUT)
    assert results == []


def test_nothing_starts_after_stop() -> None:
    runs = threading.Event()
    with running(Periodic("later", 0.2, runs.set, first_after=0.2)):
        pass
    assert not runs.wait(0.5)
