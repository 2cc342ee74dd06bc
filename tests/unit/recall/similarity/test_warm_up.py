"""The warm-up compiles, or loads from the cache, what a search calls."""

import re
from pathlib import Path

from recall.similarity.segments import kernel
from recall.similarity.warm_up import compile_kernels

_CALL = re.compile(r"\bkernel\.([a-z_]+)\(")


def test_warm_up_compiles_every_kernel_that_the_index_calls() -> None:
    called = set()
    for module in Path(kernel.__file__).parent.glob("*.py"):
        called.update(_CALL.findall(module.read_text()))
    assert {"search", "build_bounds"} <= called
    compile_kernels()
    assert [name for name in sorted(called) if not getattr(kernel, name).signatures] == []
