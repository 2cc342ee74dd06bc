"""The priority of processes that let others go first."""

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil

_AUTOGROUP = Path("/proc/self/autogroup")
_ATTEMPTS = 10
_PAUSE = 0.1  # seconds


def lower_priority(niceness: int, *pids: int) -> None:
    """Lower the priority of this process and of others, and of what they start.

    `niceness`: 0 to 19, as `nice` has it; one that is higher already stays.
    """
    for process in (os.getpid(), *pids):
        for thread in _thread_ids(process):
            with suppress(OSError):  # it may have ended
                current = os.getpriority(os.PRIO_PROCESS, thread)
                os.setpriority(os.PRIO_PROCESS, thread, max(niceness, current))
    set_session_niceness(niceness)


def set_session_niceness(niceness: int) -> None:
    """Set the priority of the session that this process leads, which may rise again.

    With Linux autogroups, the niceness of processes counts within their session only.
    """
    if os.getsid(0) != os.getpid() or not _AUTOGROUP.exists():
        return
    for _ in range(_ATTEMPTS):
        try:
            _AUTOGROUP.write_text(str(niceness))
        except BlockingIOError:  # the kernel takes ten changes a second, of all sessions
            time.sleep(_PAUSE)
        except OSError:
            return
        else:
            return


def _thread_ids(process: int) -> list[int]:
    """Linux has a priority per thread; elsewhere the process ID stands for all threads."""
    if not psutil.LINUX:
        return [process]
    with suppress(psutil.Error):
        return [thread.id for thread in psutil.Process(process).threads()]
    return []
