"""What Spark writes to the checkpoint of a streaming query."""

from pathlib import Path

VERSION = "v1"
"""Of all its logs; the first line."""


def read_offsets(checkpoint: Path, batch: int) -> list[str]:
    """The end offset of each source in a micro-batch, which Spark stores before it starts.

    Raises `OSError` if the batch is not in the checkpoint, and `ValueError` for another format.
    """
    version, _, *offsets = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    if version != VERSION:
        raise ValueError(f"unsupported version of the checkpoint: {version!r}")
    return offsets
