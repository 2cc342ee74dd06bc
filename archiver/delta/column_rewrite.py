"""Rewriting a table's files for its declared columns: beside the old ones, then one commit.

Each rewritten file has a name that follows from the files it replaces and from the columns, and
exists only when it is whole. A process that continues after a kill finds those that are written.
Until the commit, readers see the old files, with the columns converted as they are read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from archiver.delta.declarations import rewritten_mark
from archiver.delta.digests import compute_digest
from archiver.delta.files import ADOPTED_PREFIX, CLUSTERED_PREFIX, DataFile, is_unclustered
from archiver.delta.schema import ARROW_TYPES
from archiver.delta.table import StreamTable
from archiver.errors import CommitConflict, ValueLost

# Rows of small files that are rewritten as one.
_MAX_GROUP_ROWS = 500_000
_GROWTH = 1.2  # bytes of a rewritten file for each of its sources, at most
_EXACT_INTEGERS = 2**53  # double represents all integers up to here


@dataclass(frozen=True)
class RewriteStep:
    """Files of one chunk that are rewritten as one. `bytes`: about what the new one takes."""

    chunk: int
    files: tuple[DataFile, ...]
    path: str
    bytes: int


@dataclass(frozen=True)
class RewriteProgress:
    """How far a rewrite is, in steps and bytes. `bytes_needed`: of the steps that are left."""

    steps_done: int
    steps: int
    bytes_needed: int


OnProgress = Callable[[RewriteProgress], None]
"""Called before each step; may raise to end the rewrite, which can be continued later."""


class ColumnRewrite:
    """One rewrite of a table. Each method may be called again after a kill, or an error."""

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._files = table.files
        # By path: whether a file stores the columns as they were before. Files never change.
        self._is_affected: dict[str, bool] = {}

    def check_values(self, on_progress: OnProgress) -> None:
        """Read all values that may change. Raises `ValueLost` for the first that does."""
        lossy = [
            column
            for column, stored in self._table.declaration.changes.rewritten.items()
            if stored.type == "bigint" and self._files.schema.columns[column] == "double"
        ]
        steps = self.plan()
        for number, step in enumerate(steps):
            on_progress(RewriteProgress(number, len(steps), _sum_bytes(steps)))
            for file in step.files:
                for column in lossy:
                    self._check_file(file, column)

    def _check_file(self, file: DataFile, column: str) -> None:
        parquet = pq.ParquetFile(self._files.storage.open_data_file(file.path))
        name = self._files.stored_name(column, parquet.schema_arrow.names)
        if name not in parquet.schema_arrow.names:
            return
        for batch in parquet.iter_batches(columns=[name]):
            value = find_inexact(batch.column(0))
            if value is not None:
                raise ValueLost(
                    f"column {column} cannot become double: the value {value} in chunk "
                    f"{file.chunk} would change; declare bigint again"
                )

    def plan(self) -> list[RewriteStep]:
        """What has to be rewritten in the newest version, in the order of chunks."""
        self._table.refresh()
        steps: list[RewriteStep] = []
        for chunk in sorted(self._table.files_by_chunk()):
            files = [file for file in self._table.data_files(chunk=chunk) if self._affects(file)]
            for group in _group_files(files):
                steps.append(self._make_step(chunk, group))
        return steps

    def run(self, on_progress: OnProgress) -> None:
        """Rewrite and commit. Raises what `on_progress` raises, `OSError` and `ArchiverError`."""
        while self._table.is_rewriting:
            steps = self.plan()
            existing = set(self._files.storage.list_files())
            bytes_needed = _sum_bytes(step for step in steps if step.path not in existing)
            rewritten: list[DataFile] = []
            for number, step in enumerate(steps):
                on_progress(RewriteProgress(number, len(steps), bytes_needed))
                if step.path not in existing:
                    self._files.write_rewritten(step.path, step.files)
                    bytes_needed -= step.bytes
                rewritten.append(self._describe(step))
            on_progress(RewriteProgress(len(steps), len(steps), 0))
            self._commit(steps, rewritten)

    def _commit(self, steps: Sequence[RewriteStep], rewritten: Sequence[DataFile]) -> None:
        """One commit; none if maintenance has changed the table meanwhile."""
        replaced = [file for step in steps for file in step.files]
        unchanged = [path for path, is_affected in self._is_affected.items() if not is_affected]
        try:
            self._table.replace_columns(rewritten, replaced, unchanged)
        except CommitConflict:
            return

    def _affects(self, file: DataFile) -> bool:
        if file.path not in self._is_affected:
            parquet = pq.ParquetFile(self._files.storage.open_data_file(file.path))
            self._is_affected[file.path] = self._stores_old_columns(parquet.schema_arrow)
        return self._is_affected[file.path]

    def _stores_old_columns(self, stored: pa.Schema) -> bool:
        for column, source in self._table.declaration.changes.rewritten.items():
            if source.name != column and source.name in stored.names:
                return True
            arrow_type = ARROW_TYPES[self._files.schema.columns[column]]
            if column in stored.names and stored.field(column).type != arrow_type:
                return True
        return False

    def _make_step(self, chunk: int, files: Sequence[DataFile]) -> RewriteStep:
        names = [file.path for file in files]
        digest = blake2b(orjson.dumps(names), digest_size=16).hexdigest()
        prefix = ADOPTED_PREFIX if files[0].is_foreign else CLUSTERED_PREFIX
        mark = rewritten_mark(self._files.schema)
        path = f"chunk={chunk}/{prefix}{mark}{digest}.parquet"
        return RewriteStep(
            chunk, tuple(files), path, int(_GROWTH * sum(file.bytes for file in files))
        )

    def _describe(self, step: RewriteStep) -> DataFile:
        (local_path,) = self._files.storage.lease_paths([step.path])
        return DataFile(
            path=step.path,
            chunk=step.chunk,
            rows=sum(file.rows for file in step.files),
            bytes=Path(local_path).stat().st_size,
            oldest=min(file.oldest for file in step.files),
            newest=max(file.newest for file in step.files),
            is_foreign=step.files[0].is_foreign,
            digest=compute_digest(Path(local_path)),
        )


def find_inexact(integers: pa.Array) -> int | None:
    """The first integer that a double cannot represent."""
    limit = pa.scalar(_EXACT_INTEGERS, pa.int64())
    is_large = pc.or_(pc.greater(integers, limit), pc.less(integers, pc.negate(limit)))
    for value in integers.filter(pc.fill_null(is_large, False)).to_pylist():
        if int(float(value)) != value:
            return int(value)
    return None


def _group_files(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Small files together up to a number of rows, clustered and foreign ones each alone."""
    group: list[DataFile] = []
    for file in files:
        if file.is_foreign or not is_unclustered(file.path):
            yield [file]
            continue
        if group and sum(member.rows for member in group) + file.rows > _MAX_GROUP_ROWS:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _sum_bytes(steps: Iterable[RewriteStep]) -> int:
    return sum(step.bytes for step in steps)
