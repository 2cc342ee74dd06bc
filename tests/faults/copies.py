"""Processes to be killed: copies of a process that has all imports, so that a restart is cheap.

They and that process end with the process of the tests.
"""

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Any

from tests.parent import end_with_parent

_COPIES = multiprocessing.get_context("forkserver")
_MODULES = (
    "changing",
    "compacting",
    "copied_process",
    "notifying",
    "numbering",
    "placing",
    "recalling",
    "retaining",
    "rewriting",
    "rolling",
    "summarising",
    "tailing",
    "trimming",
)


def start_copy(main: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Start a function in a process of its own."""
    _COPIES.set_forkserver_preload([f"tests.faults.{name}" for name in _MODULES])
    process = _COPIES.Process(target=_run, args=(main, *arguments), daemon=True)
    process.start()
    return process


def _run(main: Callable[..., None], *arguments: Any) -> None:
    end_with_parent()
    main(*arguments)
