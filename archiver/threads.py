"""Threads: those whose result is awaited, and those that work until the process ends.

No error of a thread is lost: it is raised where its result is awaited, or handed to the handler of
the process, which ends it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")

# Gets the name of a thread and the error by which it ended.
FailureHandler = Callable[[str, BaseException], None]

_handle_failure: FailureHandler | None = None


def set_failure_handler(handler: FailureHandler) -> None:
    """Have a function called when a thread of `start_daemon` ends by an error, in that thread."""
    global _handle_failure
    _handle_failure = handler


def start_daemon(work: Callable[[], object], name: str) -> threading.Thread:
    """Run `work` in a thread that does not keep the process from ending.

    An error of it goes to the handler of `set_failure_handler`; without one it is printed.
    """

    def run() -> None:
        try:
            work()
        except BaseException as error:
            if _handle_failure is None:
                raise
            _handle_failure(name, error)

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    return thread


def start_thread(work: Callable[[], _Result], name: str) -> Future[_Result]:
    """What `work` will return or raise, in a thread that does not keep the process from ending."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name=name).start()
    return future
