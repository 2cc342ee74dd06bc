"""Computes summaries of closed chunks in a thread of the recall process, which has low priority.

One process at a time computes; all others follow what it commits. A node that was not committed when
the process was killed is computed again.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError

import sql
from archiver.delta import Vacuum
from archiver.delta.summary_table import delete_summary, list_summaries
from archiver.errors import ArchiverError, CommitConflict
from archiver.periodic import Timer
from archiver.read import Reader
from archiver.storage import StorageRoot
from archiver.time_range import TimeRange
from recall.errors import RecallError
from recall.requests import ChunkRange
from recall.summaries.model import SummaryShape, plan_shapes
from recall.summaries.nodes import NodeBuilder
from recall.summaries.plan import Costs
from recall.summaries.store import Summary, SummaryStore
from sql.archive import ChunkGateway, SummaryGateway, SummaryRow

_LOG = structlog.get_logger()

_INTERVAL = 2.0  # seconds between two rounds
_WANTED_INTERVAL = 5.0  # seconds between two looks at which summaries are wanted
_RECORD_INTERVAL = 30.0  # seconds between two records of costs
_VACUUM_INTERVAL = 60.0  # seconds
# See `NodeBuilder`; a chunk that is not clustered soon is not going to be.
_SETTLE_TIME = 20.0
# Seconds that a table stays which no rule wants any more: rule files are edited in steps.
_UNWANTED_RETENTION = 600.0

_RECOVERABLE_ERRORS = (
    sql.DatabaseError,
    ArchiverError,
    RecallError,
    DeltaError,
    OSError,
    CommitConflict,
    pa.ArrowException,
)

# Returns the summaries that rules and streams want; with each, whether whatever it costs.
WantedShapes = Callable[[], Mapping[SummaryShape, bool]]


class SummaryBuilder:
    """Keeps the summaries of a store up to date. For one thread.

    `history`: seconds for which superseded versions of tables stay readable; `file_retention`: see
    `archiver.delta.Vacuum`.
    """

    def __init__(
        self,
        connection: sql.Connection,
        root: StorageRoot,
        store: SummaryStore,
        *,
        list_wanted: WantedShapes,
        history: float,
        file_retention: float = 300.0,
        settle_time: float = _SETTLE_TIME,
    ) -> None:
        self._connection = connection
        self._root = root
        self._reader = store.reader
        self._store = store
        self._list_wanted = list_wanted
        self._gateway = SummaryGateway(connection)
        self._nodes = NodeBuilder(store, settle_time)
        self._vacuum = Vacuum(file_retention, history)
        self._timers = {
            name: Timer(interval)
            for name, interval in (
                ("wanted", _WANTED_INTERVAL),
                ("record", _RECORD_INTERVAL),
                ("vacuum", _VACUUM_INTERVAL),
            )
        }
        self._shapes: dict[SummaryShape, bool] = {}
        self._is_builder = False
        self._unwanted_since: dict[tuple[str, str], float] = {}
        self._recorded_asked: dict[str, int] = {}
        self._last_error = ""

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. What fails is logged once and tried again."""
        while not stop.is_set():
            is_busy = False
            try:
                is_busy = self.run_once(stop)
            except _RECOVERABLE_ERRORS as error:
                self._log_once(error)
                if self._connection.closed:
                    return
            stop.wait(0.0 if is_busy else _INTERVAL)

    def _log_once(self, error: Exception) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            _LOG.warning("chunks not summarised", action="summaries_failed", error=str(error))

    def run_once(self, stop: threading.Event | None = None) -> bool:
        """One round; returns whether there is more to compute."""
        if self._is_due("wanted"):
            self._shapes = plan_shapes(self._list_wanted())
        self._store.replace(list(self._shapes), _list_closed_chunks(self._connection, self._shapes))
        if not self._is_builder:
            self._is_builder = self._gateway.try_lock()
            if self._is_builder:
                self._load_costs()
        self._reader.refresh({shape.stream for shape in self._shapes})
        is_busy = False
        for summary in self._store.summaries:
            if stop is not None and stop.is_set():
                return False
            try:
                is_busy |= self._update(summary)
            except _RECOVERABLE_ERRORS as error:  # the others go on
                self._log_once(error)
                summary.table = self._store.open_table(summary.shape)
        if self._is_builder:
            self._look_after()
        return is_busy

    def _update(self, summary: Summary) -> bool:
        """Bring the nodes of a summary up to date; returns whether there is more to compute."""
        if self._is_builder:
            return self._nodes.update(summary, self._shapes.get(summary.shape, False))
        self._nodes.follow(summary)
        return False

    def _is_due(self, name: str) -> bool:
        timer = self._timers[name]
        if timer.is_due():
            timer.restart()
            return True
        return False

    def _load_costs(self) -> None:
        """Go on counting where the last process stopped."""
        rows = {row.key: row for row in self._gateway.list_all()}
        for summary in self._store.summaries:
            row = rows.get(summary.shape.key)
            if row is not None:
                summary.costs = Costs(
                    chunks=row.chunks,
                    rows=row.rows,
                    groups=row.groups,
                    asked_count=row.asked,
                    build_seconds=row.build_seconds,
                    read_seconds=row.read_seconds,
                    lookup_seconds=row.lookup_seconds,
                )
                self._recorded_asked[row.key] = row.asked

    def _look_after(self) -> None:
        """Record costs, remove what no rule wants any more, and vacuum tables."""
        summaries = self._store.summaries
        if self._is_due("record"):
            for summary in summaries:
                self._record(summary)
            self._gateway.delete_others([summary.shape.key for summary in summaries])
        if self._is_due("vacuum"):
            self._delete_unwanted()
            self._vacuum.run([summary.table for summary in summaries], time.monotonic())

    def _record(self, summary: Summary) -> None:
        costs, key = summary.costs, summary.shape.key
        self._gateway.put(
            SummaryRow(
                key=key,
                stream=summary.shape.stream,
                definition=summary.shape.to_json(),
                bytes=sum(node.bytes for node in summary.nodes.values()),
                chunks=costs.chunks,
                rows=costs.rows,
                groups=costs.groups,
                asked=costs.asked_count - self._recorded_asked.get(key, 0),
                build_seconds=costs.build_seconds,
                read_seconds=costs.read_seconds,
                lookup_seconds=costs.lookup_seconds,
                loss=summary.loss,
            )
        )
        self._recorded_asked[key] = costs.asked_count

    def _delete_unwanted(self) -> None:
        """Delete tables that have been unwanted for some time."""
        wanted_tables = set()
        for shape in self._shapes:
            wanted_tables.add((self._reader.schema(shape.stream).table_name, shape.key))
        now = time.monotonic()
        unwanted: dict[tuple[str, str], float] = {}
        for table in list_summaries(self._root):
            if table not in wanted_tables:
                unwanted[table] = self._unwanted_since.get(table, now)
        self._unwanted_since = unwanted
        for (stream, key), since in unwanted.items():
            if now - since >= _UNWANTED_RETENTION:
                delete_summary(self._root, stream, key)


def open_summaries(
    connection: sql.Connection,
    root: StorageRoot,
    reader: Reader,
    wanted_shapes: Mapping[SummaryShape, bool],
) -> SummaryStore:
    """The summaries that another process has computed, as they are now."""
    store = SummaryStore(root, reader)
    shapes = plan_shapes(wanted_shapes)
    store.replace(list(shapes), _list_closed_chunks(connection, shapes))
    reader.refresh({shape.stream for shape in shapes})
    nodes = NodeBuilder(store, settle_time=0.0)
    for summary in store.summaries:
        nodes.follow(summary)
    return store


def _list_closed_chunks(
    connection: sql.Connection, shapes: Collection[SummaryShape]
) -> list[ChunkRange]:
    """Oldest first; none if no summary is wanted."""
    chunks: list[ChunkRange] = []
    if shapes:
        for row in ChunkGateway(connection).list_all():
            if row.state in ("recent", "old"):
                chunks.append(ChunkRange(row.id, TimeRange(row.from_ts, row.to_ts)))
    return chunks
