"""Streams whose files are rewritten for changed columns, in words. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_MIB = 1 << 20  # bytes


def describe_rewrites(rewrites: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each rewrite that goes on. `rewrites`: of the status."""
    for rewrite in rewrites:
        if rewrite["state"] in ("checking", "rewriting"):
            yield f"{_describe(rewrite)}; its new input waits"


def find_rewrite_problems(rewrites: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A problem for each rewrite that fails. `rewrites`: of the status."""
    for rewrite in rewrites:
        if rewrite["state"] == "refused":
            yield (
                f"stream {rewrite['stream']}: {rewrite['reason']} in the workspace file and "
                "restart; its new input waits"
            )
        elif rewrite["state"] == "failing":
            yield f"{_describe(rewrite)}, and is tried again: {rewrite['reason']}"


def _describe(rewrite: Mapping[str, Any]) -> str:
    columns = ", ".join(rewrite["columns"])
    work = "values are checked" if rewrite["state"] == "checking" else "files are rewritten"
    return (
        f"stream {rewrite['stream']}: {work} for changed columns ({columns}), "
        f"{rewrite['steps_done']:,} of {rewrite['steps']:,} steps, "
        f"{-(-rewrite['bytes_needed'] // _MIB):,} MiB of disk needed"
    )
