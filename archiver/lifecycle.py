"""What becomes of chunks as event time moves on. Pure: values in, decisions out."""

from collections.abc import Sequence

from archiver.chunk import Chunk


def to_close(chunks: Sequence[Chunk], watermark: int | None) -> list[Chunk]:
    """The present chunks whose end is fixed and passed by the watermark of all streams (microseconds)."""
    if watermark is None:
        return []
    return [c for c in chunks if c.state == "present" and c.to_ts is not None and c.to_ts <= watermark]
