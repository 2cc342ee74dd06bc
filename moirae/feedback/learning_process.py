"""Runs a function in a process of its own: minutes of computation must not delay recalls."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TypeVar

from moirae.errors import MoiraeError
from moirae.runtime import watch_parent

_Result = TypeVar("_Result")

_NICENESS = 19  # every other process comes first


def run_in_process(function: Callable[..., _Result], *arguments: object) -> _Result:
    """The result of a function of a module. The process ends with this one.

    Raises `MoiraeError` if it ends without a result, as when it is killed.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_run, args=(sender, os.getpid(), function, arguments), daemon=True, name="learn"
    )
    process.start()
    sender.close()
    try:
        result: _Result = receiver.recv()
        return result
    except (EOFError, OSError):  # OSError: it was killed while it sent the result
        process.join()
        raise MoiraeError(f"learning ended with exit code {process.exitcode}") from None
    finally:
        receiver.close()
        process.join()


def _run(
    sender: Connection,
    parent_pid: int,
    function: Callable[..., object],
    arguments: Sequence[object],
) -> None:
    watch_parent(parent_pid, threading.Event(), grace=0.0)
    os.nice(_NICENESS)
    sender.send(function(*arguments))
