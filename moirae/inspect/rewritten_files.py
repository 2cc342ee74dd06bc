"""Streams whose source rewrites or renames files that were read, in words. No I/O."""

from collections.abc import Iterator, Mapping
from typing import Any


def describe_rewritten_files(streams: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Lines for each such stream. `streams`: as in the status."""
    for stream, status in streams.items():
        if status["rewritten"]:
            yield (
                f"stream {stream}: the source has rewritten {_count_files(status['rewritten'])} "
                "after they were read; their archived rows are duplicates. Where files only grow, "
                "set `tail: true` and `after: keep`"
            )
        if status["renamed"]:
            yield (
                f"stream {stream}: the source has renamed {_count_files(status['renamed'])} after "
                "they were read; their archived rows are duplicates. Where log files rotate, set "
                "`tail: true`"
            )


def _count_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
