"""One stream's Delta table, partitioned by chunk: appending, and which files hold which time.

Data and log files are flushed to disk before an append returns: the library that writes them does not.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from archiver.identity import ENTRY, entries
from archiver.schema import StreamSchema
from archiver.times import to_micros

# Commits between two checkpoints of the log: often enough to open fast, rare enough not to slow appends.
_CONFIGURATION = {"delta.checkpointInterval": "100", "delta.logRetentionDuration": "interval 1 days"}


@dataclass(frozen=True)
class ChunkFiles:
    """What a chunk holds in one table: rows, files, bytes, and the span of event time, in microseconds."""

    rows: int
    files: int
    bytes: int
    oldest: int
    newest: int


class StreamTable:
    """The archive of one stream under `root`, created when absent. One process appends (see `moirae.live.fence`)."""

    def __init__(self, root: Path, schema: StreamSchema) -> None:
        self.schema = schema
        self.path = root / "streams" / schema.name
        self._arrow = schema.arrow()
        self._table = self._open()
        self._settled = {field.name for field in self._table.schema().fields} == set(self._arrow.names)
        self._actions = self._read_actions()

    @staticmethod
    def exists(root: Path, stream: str) -> bool:
        """Whether the stream has a table."""
        return (root / "streams" / stream / "_delta_log").is_dir()

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError:
            self.path.mkdir(parents=True, exist_ok=True)
            return DeltaTable.create(self.path, self._arrow, partition_by=["chunk"], configuration=_CONFIGURATION)

    def append(self, rows: pa.Table, batch: int) -> None:
        """Commit rows of the table's schema at once. `batch` is kept with the commit, for people who look."""
        write_deltalake(
            self._table,
            rows.select(self._arrow.names).cast(self._arrow),
            mode="append",
            # Columns may have come or gone since the table was made; old rows have no value in new ones.
            schema_mode=None if self._settled else "merge",
            commit_properties=CommitProperties(custom_metadata={"batch": str(batch)}),
        )
        self._refresh()

    def _refresh(self) -> None:
        before = set(self._actions["path"].to_pylist())
        self._actions = self._read_actions()
        _flush([self.path / path for path in self._actions["path"].to_pylist() if path not in before])
        _flush([self.path / "_delta_log" / f"{self._table.version():020d}.json"])

    def _read_actions(self) -> pa.Table:
        return pa.table(self._table.get_add_actions(flatten=True))

    def refresh(self) -> None:
        """See what others (the clustering of closed chunks) have committed."""
        before = self._table.version()
        self._table.update_incremental()
        if self._table.version() != before:
            self._actions = self._read_actions()

    def files(self, low: int | None = None, high: int | None = None, chunk: int | None = None) -> list[str]:
        """Paths of the files that may hold event times in [low, high) (microseconds) and the chunk."""
        return [
            str(self.path / path)
            for path, oldest, newest, part in self._spans()
            if (low is None or newest >= low) and (high is None or oldest < high) and (chunk is None or part == chunk)
        ]

    def _spans(self) -> Sequence[tuple[str, int, int, int]]:
        time = self.schema.time
        actions = self._actions
        if not len(actions):
            return []
        return list(
            zip(
                actions["path"].to_pylist(),
                map(to_micros, actions[f"min.{time}"].to_pylist()),
                map(to_micros, actions[f"max.{time}"].to_pylist()),
                actions["partition.chunk"].to_pylist(),
                strict=True,
            )
        )

    def chunks(self) -> dict[int, ChunkFiles]:
        """What each chunk holds here."""
        found: dict[int, ChunkFiles] = {}
        rows, sizes = (self._actions[name].to_pylist() for name in ("num_records", "size_bytes"))
        for (_, oldest, newest, chunk), count, size in zip(self._spans(), rows, sizes, strict=True):
            held = found.get(chunk, ChunkFiles(0, 0, 0, oldest, newest))
            found[chunk] = ChunkFiles(
                held.rows + count,
                held.files + 1,
                held.bytes + size,
                min(held.oldest, oldest),
                max(held.newest, newest),
            )
        return found

    def read(self, columns: Sequence[str], chunk: int | None = None) -> pa.Table:
        """The named columns of a chunk, or of all, in memory. `chunk` itself is not among the files' columns."""
        schema = pa.schema([self._arrow.field(name) for name in columns])
        parts = [pq.ParquetFile(path).read(columns=list(columns)) for path in self.files(chunk=chunk)]
        return pa.concat_tables([part.cast(schema) for part in parts]) if parts else schema.empty_table()

    def on_time(self, path: str, columns: Sequence[str]) -> pa.Table:
        """The named columns of one file's rows that did not come late, in memory."""
        schema = pa.schema([self._arrow.field(name) for name in columns])
        rows = pq.ParquetFile(path).read(columns=[*columns, "_late"])
        return rows.filter(pc.invert(rows["_late"])).select(columns).cast(schema)

    def identities(self, chunk: int) -> np.ndarray[Any, Any]:
        """The identity index entries of a chunk (`archiver.identity.ENTRY`)."""
        rows = self.read(["_id", "_hash", "_unit", "_line"], chunk)
        if not len(rows):
            return np.empty(0, dtype=ENTRY)
        return entries(rows["_id"].to_pylist(), *(rows[name].to_numpy() for name in ("_hash", "_unit", "_line")))

    def cluster(self, chunk: int) -> None:
        """Rewrite a closed chunk's files clustered by key and time, with statistics. Rows stay as they are."""
        self._table.optimize.z_order(
            [*self.schema.key, self.schema.time], partition_filters=[("chunk", "=", str(chunk))]
        )
        self._refresh()

    @property
    def version(self) -> int:
        """The Delta version that this object sees."""
        return int(self._table.version())


class NumberedTable:
    """Rows of the control plane as a Delta table, partitioned by chunk; each appended exactly once, by its number."""

    def __init__(self, root: Path, name: str, columns: Sequence[str]) -> None:
        """`columns` beside the event's time, id, rule and version: texts."""
        names = ["eid", "rule", "version", *columns]
        kinds = [("ts", pa.timestamp("us", tz="UTC")), *((column, pa.string()) for column in names)]
        self._schema = pa.schema([*kinds, ("chunk", pa.int32())])
        self._application = name
        self.path = root / name
        try:
            self._table = DeltaTable(self.path)
        except TableNotFoundError:
            self.path.mkdir(parents=True, exist_ok=True)
            self._table = DeltaTable.create(
                self.path, self._schema, partition_by=["chunk"], configuration=_CONFIGURATION
            )

    def last(self) -> int:
        """The number of the last archived row, 0 for none."""
        return self._table.transaction_version(self._application) or 0

    def append(self, rows: pa.Table, last: int) -> None:
        """Commit rows up to the number `last`, which the same commit records."""
        write_deltalake(
            self._table,
            rows.cast(self._schema),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction(self._application, last)]),
        )
        commit = self.path / "_delta_log" / f"{self._table.version():020d}.json"
        actions = [orjson.loads(line) for line in commit.read_bytes().splitlines()]
        _flush([*(self.path / action["add"]["path"] for action in actions if "add" in action), commit])

    def read(self, rule: str | None = None, version: str | None = None) -> pa.Table:
        """The archived rows, or those of a rule's version."""
        given = (("rule", "=", rule), ("version", "=", version))
        filters = [one for one in given if one[2] is not None]
        return pa.table(self._table.to_pyarrow_table(filters=filters or None))

    @staticmethod
    def exists(root: Path, name: str) -> bool:
        """Whether there is such a table."""
        return (root / name / "_delta_log").is_dir()


def _flush(paths: Sequence[Path]) -> None:
    for path in (*paths, *{path.parent for path in paths}):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
