"""Threads whose result is awaited."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


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
