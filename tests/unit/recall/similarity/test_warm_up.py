"""The warm-up compiles what a search calls."""

from numba.core.dispatcher import Dispatcher

from recall.similarity import kernel
from recall.similarity.warm_up import compile_kernels


def test_warm_up_reaches_every_kernel() -> None:
    compile_kernels()
    dispatchers = [value for value in vars(kernel).values() if isinstance(value, Dispatcher)]
    assert len(dispatchers) > 5
    assert [kernel.__name__ for kernel in dispatchers if not kernel.signatures] == []
