"""The priority of processes that let others go first."""

import os
from contextlib import suppress
from pathlib import Path

import psutil


def lower_priority(niceness: int, *pids: int) -> None:
    """Lower the priority of this process and of others, and of what they start.

    `niceness`: 0 to 19, as `nice` has it; one that is higher already stays.
    """
    for process in (os.getpid(), *pids):
        for thread in _thread_ids(process):
            with suppress(OSError):  # it may have ended
                current = os.getpriority(os.PRIO_PROCESS, thread)
                os.setpriority(os.PRIO_PROCESS, thread, max(niceness, current))
    if os.getsid(0) == os.getpid():
        # With Linux autogroups, niceness counts within a session only: lower the session's too.
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(niceness))


def _thread_ids(process: int) -> list[int]:
    """Linux has a priority per thread; elsewhere the process ID stands for all threads."""
    if not psutil.LINUX:
        return [process]
    with suppress(psutil.Error):
        return [thread.id for thread in psutil.Process(process).threads()]
    return []
