"""What Spark writes to the checkpoint of a streaming query. The ledger can replace it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import structlog

from archiver.clock import utc_now

_LOG = structlog.get_logger()

VERSION = "v1"
"""Of all its logs; the first line."""
_KEPT_CHECKPOINTS = 3
"""Of those that were set aside; older ones are deleted."""
_SET_ASIDE = ".set-aside-"


def read_offsets(checkpoint: Path, batch: int) -> list[str]:
    """The end offset of each source in a micro-batch, which Spark stores before it starts.

    Raises `OSError` if the batch is not in the checkpoint, and `ValueError` for another format.
    """
    version, _, *offsets = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    if version != VERSION:
        raise ValueError(f"unsupported version of the checkpoint: {version!r}")
    return offsets


def last_batch(checkpoint: Path, log: str = "offsets") -> int | None:
    """The number of the last batch in a log of a checkpoint; None without any.

    Raises `OSError` if the log cannot be read.
    """
    try:
        names = [entry.name for entry in (checkpoint / log).iterdir()]
    except FileNotFoundError:
        return None
    return max((int(name) for name in names if name.isdecimal()), default=None)


def set_aside(checkpoint: Path, reason: str) -> None:
    """Rename a checkpoint, so that its query starts without one; log it with the reason.

    Does nothing if there is none. Raises `OSError`.
    """
    if not checkpoint.exists():
        return
    time = utc_now().strftime("%Y%m%dT%H%M%S.%fZ")
    target = checkpoint.with_name(f"{checkpoint.name}{_SET_ASIDE}{time}")
    checkpoint.rename(target)
    for folder in _list_set_aside(checkpoint)[:-_KEPT_CHECKPOINTS]:
        shutil.rmtree(folder, ignore_errors=True)
    _LOG.warning(
        "checkpoint set aside, it is rebuilt from the ledger",
        action="checkpoint_set_aside",
        checkpoint=str(target),
        reason=reason,
    )


def _list_set_aside(checkpoint: Path) -> Sequence[Path]:
    """Oldest first."""
    return sorted(
        folder
        for folder in checkpoint.parent.iterdir()
        if folder.name.startswith(checkpoint.name + _SET_ASIDE)
    )
