"""Compilation of inner loops by numba."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function when it is first called.

    The machine code is cached beside the source, or in the user's numba cache.
    """
    try:
        dispatcher: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no writable cache directory: compile at each start
        dispatcher = numba.njit(nogil=True)(function)
    return dispatcher
