"""Files that grow and rotate, read in ranges of bytes up to the last complete record."""

from moirae.live.sources.growing.growing_input import GrowingFileInput

__all__ = ["GrowingFileInput"]
