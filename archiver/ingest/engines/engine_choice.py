"""Which engine archives a batch: this process for small batches, executors for large ones. No I/O.

The choice never changes a result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from archiver.ingest.source_units import SourceUnit

EngineName = Literal["local", "spark"]
EngineMode = Literal["auto", "local", "spark"]

# Rows from which a batch is large: below, starting a job costs more than it saves.
LARGE_BATCH = 20_000
# Rows that this process archives in the 2.6 s of processor time that the first job of executors takes
# more than later ones. See docs/concepts/architecture.md.
COLD_START_ROWS = 300_000

# Bytes of a record until a stream has been read.
_PLAIN_RECORD_BYTES = 100.0
_COMPRESSED_RECORD_BYTES = 12.0
_COMPRESSED_SUFFIXES = (".gz", ".parquet")


@dataclass(frozen=True)
class EnginePolicy:
    """`mode`: an engine for all batches, or auto. `large_batch`: rows from which auto uses Spark."""

    mode: EngineMode = "local"
    large_batch: int = LARGE_BATCH

    def choose(self, estimated_rows: float, is_warm: bool = True) -> EngineName:
        """The engine for a batch of about so many rows. `is_warm`: whether executors have workers."""
        if self.mode != "auto":
            return self.mode
        start_rows = 0 if is_warm else COLD_START_ROWS
        return "spark" if estimated_rows >= self.large_batch + start_rows else "local"

    def is_large(self, estimated_rows: float) -> bool:
        """Whether warm executors archive a batch of about so many rows."""
        return self.choose(estimated_rows) == "spark"


class RecordSizes:
    """The average bytes of a record of each stream, learned from the units that were read."""

    def __init__(self) -> None:
        self._totals: dict[str, tuple[int, int]] = {}

    def observe(self, stream: str, size: int, records: int) -> None:
        """Include a unit of `size` bytes and so many records."""
        if size and records:
            total_size, total_records = self._totals.get(stream, (0, 0))
            self._totals[stream] = total_size + size, total_records + records

    def estimate_rows(self, units: Sequence[SourceUnit]) -> float:
        """About how many rows units have; units whose size is unknown are not counted."""
        return sum(unit.size / self._record_bytes(unit) for unit in units if unit.size)

    def _record_bytes(self, unit: SourceUnit) -> float:
        totals = self._totals.get(unit.stream)
        if totals is not None:
            return totals[0] / totals[1]
        if unit.path is not None and unit.path.suffix in _COMPRESSED_SUFFIXES:
            return _COMPRESSED_RECORD_BYTES
        return _PLAIN_RECORD_BYTES
