"""Compilation of inner loops by numba."""

import functools
import threading
from collections.abc import Callable
from typing import Any

# Held while the functions of a module are replaced.
_LOCK = threading.Lock()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of a module when it is first called.

    The machine code is cached beside the source, or in the user's numba cache. The first call also
    imports numba: that takes a third of a second of processor time, and few processes compare.
    """
    functions = function.__globals__
    name = function.__name__

    @functools.wraps(function)
    def stand_in(*arguments: Any) -> Any:
        with _LOCK:
            if functions[name] is stand_in:
                _replace_stand_ins(functions)
        return functions[name](*arguments)

    stand_in.stands_in = True  # type: ignore[attr-defined]
    return stand_in


def _replace_stand_ins(functions: dict[str, Any]) -> None:
    """Replace all of a module: numba finds what a function calls by its name in the module."""
    for name, value in list(functions.items()):
        if getattr(value, "stands_in", False):
            functions[name] = _dispatcher(value.__wrapped__)


def _dispatcher(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    try:
        dispatcher: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no writable cache directory: compile at each start
        dispatcher = numba.njit(nogil=True)(function)
    return dispatcher
