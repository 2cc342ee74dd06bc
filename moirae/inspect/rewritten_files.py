"""Streams whose source rewrites files that were read, in words. No I/O."""

from collections.abc import Iterator, Mapping
from typing import Any


def describe_rewritten_files(streams: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line for each such stream. `streams`: as in the status."""
    for stream, status in streams.items():
        count = status["rewritten"]
        if count:
            files = "1 file" if count == 1 else f"{count:,} files"
            yield (
                f"stream {stream}: the source has rewritten {files} after they were read; their "
                "archived rows are duplicates. Set `tail: true` where files only grow"
            )
