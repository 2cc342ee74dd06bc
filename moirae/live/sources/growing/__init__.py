"""Files that grow and rotate, read in ranges of bytes up to the last complete record."""

from moirae.live.sources.growing.growing_input import GrowingFileInput
from moirae.live.sources.growing.ranges import find_range, read_part_name

__all__ = ["GrowingFileInput", "find_range", "read_part_name"]
