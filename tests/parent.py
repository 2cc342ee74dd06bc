"""Processes of tests end with the process that has started them, however that ends."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>


def end_with_parent() -> None:
    """Let the kernel kill this process when the thread that has started it ends. Linux only.

    For `preexec_fn`, or the first line of a process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
