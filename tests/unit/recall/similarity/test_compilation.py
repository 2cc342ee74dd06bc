"""Functions are also compiled where machine code cannot be cached."""

from collections.abc import Callable

import numba
import pytest

from recall.similarity.compilation import _dispatcher


def _increment(value: int) -> int:
    return value + 1


def test_function_is_compiled_without_a_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_cache(cache: bool = False, nogil: bool = False) -> Callable[[object], object]:
        def decorate(function: object) -> object:
            if cache:
                raise RuntimeError("no locator available")
            return function

        return decorate

    monkeypatch.setattr(numba, "njit", refuse_cache)
    assert _dispatcher(_increment) is _increment
