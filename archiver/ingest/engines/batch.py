"""A batch of source units while an engine archives it, and the interface of engines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from archiver.delta import DataFile, StreamTable
from archiver.formats import Format
from archiver.ingest.chunk_cutter import ChunkCutter
from archiver.ingest.engines.stream_progress import RegisteredUnit, StreamProgress
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.source_units import OffsetRange, SourceUnit
from archiver.times import Micros


@dataclass(frozen=True)
class ArchivedRows:
    """What an engine has archived of one stream.

    `on_time`: the rows that are not late and are now archived, also those that an earlier,
    interrupted read had archived; None if executors have them. `files`: the files that executors
    wrote. `newest`: the newest event time of the archived on-time rows, in microseconds.
    """

    appended_rows: int
    on_time: pa.Table | None = None
    files: Sequence[DataFile] = ()
    newest: int | None = None


@dataclass(frozen=True, kw_only=True)
class IngestStats:
    """How the last batch was archived.

    `batch`: its number since the process started. `tasks`, `executors`: 0 if no executor was used.
    `batches`: number of batches since the process started, by engine.
    """

    engine: str
    batch: int
    rows_per_second: float
    tasks: int
    executors: int
    batches: Mapping[str, int]


@dataclass(kw_only=True, eq=False)
class IngestBatch:
    """What engines read and change while they archive a batch.

    `now`: the current time in microseconds. `register_units` records units in the ledger; None
    stands for those that are finished. `partition_clocks` returns, of a stream, the clocks of the
    partitions whose range was begun and not finished; `clock`, that of units that are first read
    now. `fence` raises when another process has taken over.
    `task_count`, `executor_count`: what archived it, 0 for this process.
    `chunks_with_late_rows`: chunks to which late rows are appended.
    """

    number: int
    now: int
    tables: Mapping[str, StreamTable]
    cutter: ChunkCutter
    progress: StreamProgress
    register_units: Callable[[Sequence[SourceUnit]], Sequence[RegisteredUnit | None]]
    partition_clocks: Callable[[str], Mapping[str, Micros]]
    clock: Callable[[str], Micros]
    fence: Callable[[], None]
    task_count: int = 0
    executor_count: int = 0
    open_units: list[OpenUnit] = field(default_factory=list)
    chunks_with_late_rows: set[int] = field(default_factory=set)

    def expired_before(self, stream: str) -> int | None:
        """Rows of a stream before this event time have expired; None: none have."""
        return self.cutter.expired_before(stream)

    def open_unit(self, unit: SourceUnit, registered: RegisteredUnit) -> OpenUnit:
        """Begin to read a unit of the batch; see `StreamProgress`."""
        opened = self.progress.open_unit(unit, registered)
        self.open_units.append(opened)
        return opened

    def finish_reading(self, open_unit: OpenUnit) -> None:
        """Record that a unit was read; see `StreamProgress`."""
        self.progress.finish_reading(open_unit)


@dataclass(frozen=True)
class TopicRecords:
    """A micro-batch of a Kafka topic, which only executors have read.

    `source`: of the topic in the names of units. `fields`: the field names of CSV records. `frame`:
    a Spark data frame with the columns `partition`, `offset` and `value`; a partition is not
    divided among its parts. `ranges`: by partition, the offsets that are archived. `verify` is
    called once the records are read; it raises if they are not those of the topic.
    """

    stream: str
    source: str
    format: Format
    fields: Sequence[str] | None
    frame: Any
    ranges: Mapping[int, OffsetRange]
    verify: Callable[[], None] = lambda: None


class IngestEngine(Protocol):
    """Decodes, classifies and appends the records of source units.

    Every engine archives the same rows with the same marks, refuses the same lines and cuts the
    same chunks.
    """

    def archive(self, units: Sequence[SourceUnit], batch: IngestBatch) -> dict[str, ArchivedRows]:
        """Archive the units that are not finished; those of one stream are in order.

        Returns what was archived by stream.
        """


class ExecutorEngine(IngestEngine, Protocol):
    """An engine on executors. It also archives records that Spark's reader of a topic delivers."""

    @property
    def is_warm(self) -> bool:
        """Whether worker processes have started."""

    def warm_up(self) -> None:
        """Start worker processes in the background, unless they were started."""

    def archive_records(self, records: TopicRecords, batch: IngestBatch) -> dict[str, ArchivedRows]:
        """Archive the records of some ranges of offsets."""
