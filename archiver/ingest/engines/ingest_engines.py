"""The engines of an archive: which one archives a batch, and how the last batch was archived."""

from collections import Counter
from collections.abc import Sequence

from archiver.ingest.engines.batch import ExecutorEngine, IngestBatch, IngestStats
from archiver.ingest.engines.engine_choice import EngineName, EnginePolicy, RecordSizes
from archiver.ingest.engines.local_ingest import LocalIngest
from archiver.ingest.source_units import SourceUnit


class IngestEngines:
    """This process, and executors once Spark has started.

    `executors`: None: no executors. `stats`: None before the first batch.
    """

    def __init__(self, local: LocalIngest) -> None:
        self.local = local
        self.executors: ExecutorEngine | None = None
        self.policy = EnginePolicy()
        self.sizes = RecordSizes()
        self.stats: IngestStats | None = None
        self._batches_by_engine: Counter[str] = Counter()

    def choose(self, units: Sequence[SourceUnit]) -> EngineName:
        """The engine for units; this process if executors cannot read one of them."""
        if not units or any(unit.path is None for unit in units):
            return "local"
        return self.choose_for_rows(self.sizes.estimate_rows(units))

    def choose_for_rows(self, estimated_rows: float) -> EngineName:
        """The engine for about so many rows. After the first large batch, executors are warm."""
        if self.executors is None:
            return "local"
        if self.policy.is_large(estimated_rows):
            self.executors.warm_up()
        return self.policy.choose(estimated_rows, self.executors.is_warm)

    def require_executors(self) -> ExecutorEngine:
        """The executors, after they were chosen."""
        assert self.executors is not None
        return self.executors

    def record(self, engine: EngineName, batch: IngestBatch, seconds: float) -> None:
        """Count a batch that an engine has archived in some seconds."""
        records = 0
        for open_unit in batch.open_units:
            unit = open_unit.unit
            records += open_unit.counters.read
            self.sizes.observe(unit.stream, unit.size or 0, open_unit.counters.read)
        self._batches_by_engine[engine] += 1
        self.stats = IngestStats(
            engine=engine,
            batch=batch.number,
            rows_per_second=round(records / max(seconds, 1e-6), 1),
            tasks=batch.task_count,
            executors=batch.executor_count,
            batches=dict(self._batches_by_engine),
        )
