"""Summaries of a stream's closed chunks as a Delta table: partial aggregates by key.

A data file is one *node*: the summary of one chunk, or of a run of chunks. Its name says of which
files of the stream it was computed, as a digest. So a node is valid exactly as long as the stream
has these files in these chunks: any commit that adds, rewrites or deletes rows there ends it.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.clock import seconds_since_boot
from archiver.delta.digests import compute_digest
from archiver.delta.log import (
    CLUSTERED_PREFIX,
    DataFile,
    DeltaLog,
    open_or_create_delta_table,
)
from archiver.storage import StorageRoot, as_storage
from archiver.times import Micros

FOLDER = "summaries"
_TIME_COLUMN = "ts"
_TIME_TYPE = pa.timestamp("us", tz="UTC")
# Fewer rows in a row group make a lookup read less; more of them, more footer.
_ROW_GROUP_SIZE = 50_000


class SummaryNode(NamedTuple):
    """A summary of the chunks from `first` to `last`. `path`: of its file in the table.

    `inputs`: a digest of the files that it was computed of.
    """

    level: int
    first: int
    last: int
    inputs: str
    path: str
    bytes: int


class SummaryTable:
    """The table `summaries/<stream>/<key>`; it is created for its first node.

    For one thread. Several processes may commit to the same table. Columns of rows: those of the
    nodes, and `ts`, the beginning of the node.
    """

    def __init__(
        self, root: StorageRoot, stream: str, key: str, properties: Mapping[str, str]
    ) -> None:
        """`properties`: of a new table, for readers of it."""
        self.storage = as_storage(root) / FOLDER / stream / key
        self._properties = properties
        self._log: DeltaLog | None = None

    def refresh(self) -> None:
        """Read the commits of other processes."""
        if self._log is not None:
            self._log.refresh()
        elif self.storage.has_table():
            self._log = DeltaLog(self.storage, _TIME_COLUMN, self.storage.open_table())

    def create(self, rows: pa.Schema) -> None:
        """Create the table, if it is absent, for nodes with such rows."""
        if self._log is None:
            fields = [*rows, (_TIME_COLUMN, _TIME_TYPE), ("chunk", pa.int32())]
            table = open_or_create_delta_table(self.storage, pa.schema(fields), self._properties)
            self._log = DeltaLog(self.storage, _TIME_COLUMN, table)

    def nodes(self) -> list[SummaryNode]:
        """The nodes of the known version."""
        nodes: list[SummaryNode] = []
        for file in self._files().values():
            level, last, inputs, _ = file.path.rpartition("/")[2].split("-")[1:]
            nodes.append(
                SummaryNode(int(level), file.chunk, int(last), inputs, file.path, file.bytes)
            )
        return nodes

    def write(self, node: SummaryNode, rows: pa.Table, begin: Micros) -> DataFile:
        """Write the file of a node, whose path and bytes are not used.

        It is durable, but no part of the table before its commit.
        """
        name = f"{CLUSTERED_PREFIX}{node.level}-{node.last}-{node.inputs}-{os.urandom(4).hex()}"
        path = f"chunk={node.first}/{name}.parquet"
        times = pa.repeat(pa.scalar(begin, pa.int64()), len(rows)).cast(_TIME_TYPE)
        with self.storage.write_data_file(path) as target:
            pq.write_table(
                rows.append_column(_TIME_COLUMN, times),
                target,
                compression="zstd",
                use_dictionary=[
                    field.name for field in rows.schema if not pa.types.is_floating(field.type)
                ],
                use_byte_stream_split=[
                    field.name for field in rows.schema if pa.types.is_floating(field.type)
                ],
                write_statistics=False,
                write_page_checksum=True,
                row_group_size=_ROW_GROUP_SIZE,
                store_schema=False,
            )
            size = target.stat().st_size
            digest = compute_digest(target)
        return DataFile(
            path=path,
            chunk=node.first,
            rows=len(rows),
            bytes=size,
            oldest=begin,
            newest=begin,
            digest=digest,
        )

    def commit(
        self, add: Sequence[DataFile], remove: Sequence[SummaryNode], started_at: float
    ) -> None:
        """Add nodes and remove others; `started_at`: see `start_nodes`."""
        assert self._log is not None
        files = self._files()
        removed = [files[node.path] for node in remove if node.path in files]
        self._log.commit("WRITE", add=add, remove=removed, started_at=started_at)

    def read(self, node: SummaryNode) -> pa.Table:
        """The rows of a node. Raises `OSError` and `pa.ArrowException` if it is damaged."""
        rows = pq.read_table(
            self.storage.open_data_file(node.path),
            partitioning=None,
            page_checksum_verification=True,
        )
        return rows.drop_columns([_TIME_COLUMN])

    def _files(self) -> dict[str, DataFile]:
        files: dict[str, DataFile] = {}
        if self._log is not None:
            for chunk_files in self._log.files_by_chunk.values():
                files |= chunk_files.files_by_path
        return files

    def checkpoint(self) -> None:
        """Write a checkpoint of the log if many commits were made since the last."""
        if self._log is not None:
            self._log.checkpoint()

    def unreferenced_files(self, history: float = 0.0) -> list[str]:
        """List files that are no part of a version of the last `history` seconds."""
        return [] if self._log is None else self._log.unreferenced_files(history)

    def forget_files(self, paths: Collection[str]) -> None:
        """Forget unreferenced files, which were deleted."""
        if self._log is not None:
            self._log.forget_files(paths)


def start_nodes() -> float:
    """The time at which files of nodes begin to be written, for `SummaryTable.commit`."""
    return seconds_since_boot()


def list_summaries(root: StorageRoot) -> list[tuple[str, str]]:
    """The streams and keys of all summary tables."""
    folder = as_storage(root) / FOLDER
    tables: list[tuple[str, str]] = []
    for stream in folder.list_folders():
        tables += [(stream, key) for key in (folder / stream).list_folders()]
    return tables


def delete_summary(root: StorageRoot, stream: str, key: str) -> None:
    """Delete a summary table."""
    (as_storage(root) / FOLDER / stream / key).remove_all()
