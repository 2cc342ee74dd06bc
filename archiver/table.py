"""One stream's Delta table, partitioned by chunk: appending, and which files hold which time.

Data and log files are lasting when an append returns.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Field

from archiver.admission import column
from archiver.clock import going
from archiver.files import shaped, write
from archiver.identity import ENTRY, entries, fingerprint
from archiver.log import CLUSTERED, LOOSE, ChunkFiles, DataFile, Log, opened
from archiver.place import Root, at
from archiver.schema import APPEND, IDENTITY, StreamSchema

# Under this name the log numbers appends.
_APPENDS = "appends"
# An append of so many rows to a chunk is clustered at once, and not written again.
_LARGE = 50_000
# A clustered file is rewritten together with new ones that have at least one row for so many of its rows.
_MUCH = 4


class StreamTable:
    """The archive of one stream under `root`, created when absent. One process appends (see `moirae.process`)."""

    def __init__(self, root: Root, schema: StreamSchema) -> None:
        self.schema = schema
        self.place = at(root) / "streams" / schema.name
        self._arrow = schema.arrow()
        table = opened(self.place, self._arrow)
        known = {field.name for field in table.schema().fields}
        # Columns may have come since the table was made; old rows have no value in new ones.
        self._added = [Field.from_arrow(field) for field in self._arrow if field.name not in known]
        self._log = Log(self.place, schema.time, table, _APPENDS)

    @staticmethod
    def exists(root: Root, stream: str) -> bool:
        """Whether the stream has a table."""
        return (at(root) / "streams" / stream).has_table()

    @property
    def path(self) -> Path:
        """The folder of this machine in which its files are, or copies of some of them."""
        return self.place.folder

    def append(self, rows: pa.Table, batch: int) -> None:
        """Commit rows of the table's schema (but for their number) at once. `batch` is kept with the commit, for people
        who look."""
        if self._added:
            with self.place.told():
                self.place.table().alter.add_columns(self._added)
            self._added = []
        self._log.follow()
        number, began = self.appends + 1, going()
        rows = self._numbered(rows, number)
        parts = [(part, rows.filter(pc.equal(rows["chunk"], part))) for part in pc.unique(rows["chunk"]).to_pylist()]
        files = [self._write(part, held, len(held) >= _LARGE, f"{number}-") for part, held in parts]
        note = {"batch": str(batch)}
        self._log.commit("WRITE", files, (), int(time.time() * 1000), note, numbers=(number - 1, number), began=began)

    def _numbered(self, rows: pa.Table, number: int) -> pa.Table:
        if APPEND in rows.column_names:
            rows = rows.drop_columns([APPEND])
        rows = rows.append_column(APPEND, pa.repeat(pa.scalar(number, pa.int64()), len(rows)))
        return rows.select(self._arrow.names).cast(self._arrow)

    def replace(self, rows: pa.Table, chunk: int) -> None:
        """Commit rows of the table's schema as all that the chunk holds. Raises `Superseded` when it has changed since
        this began."""
        self._log.follow()
        held = self._log.chunks.get(chunk)
        before = [] if held is None else list(held.paths)
        rows, began = self._numbered(rows, 0), going()
        files = [self._write(chunk, rows, True)] if len(rows) else []
        if files or before:
            self._log.commit("WRITE", files, before, int(time.time() * 1000), {}, whole=chunk, began=began)

    def _write(self, chunk: int, rows: pa.Table, clustered: bool, words: str = "") -> DataFile:
        """A file that is not part of the table yet, lasting; with some words in its name."""
        name = f"chunk={chunk}/{CLUSTERED if clustered else LOOSE}{words}{uuid4().hex}.parquet"
        rows = rows.drop_columns(["chunk"])
        with self.place.writing(name) as path:
            write(self.schema, rows, path, clustered)
            size = path.stat().st_size
        ts = column(rows, self.schema.time)
        return DataFile(name, chunk, len(rows), size, int(ts.min()), int(ts.max()))

    def refresh(self) -> None:
        """See what others (the clustering of closed chunks) have committed."""
        self._log.follow()

    def files(self, low: int | None = None, high: int | None = None, chunk: int | None = None) -> list[str]:
        """Where on this machine the files are, or would be, that may hold event times in [low, high) (microseconds)
        and the chunk: to tell files apart."""
        return self.named(self.held(low, high, chunk))

    def named(self, files: Sequence[DataFile]) -> list[str]:
        """Where on this machine files are, or would be."""
        return [f"{self.path}/{file.path}" for file in files]

    def paths(self, files: Sequence[DataFile]) -> list[str]:
        """Paths of files, to be read by whatever reads files, within the time that a history query may take."""
        return self.place.paths([file.path for file in files])

    def held(self, low: int | None = None, high: int | None = None, chunk: int | None = None) -> list[DataFile]:
        """The files that may hold event times in [low, high) (microseconds) and the chunk."""
        chunks = self._log.chunks
        known = list(chunks.values()) if chunk is None else [chunks[chunk]] if chunk in chunks else []
        return [file for one in known if one.within(low, high) for file in one.paths.values() if file.within(low, high)]

    def holds(self, path: str) -> bool:
        """Whether a file belongs to the version that this object sees."""
        return self._log.holds(path)

    def chunks(self) -> dict[int, ChunkFiles]:
        """What each chunk holds here."""
        return self._log.chunks

    def read(self, columns: Sequence[str], chunk: int | None = None) -> pa.Table:
        """The named columns of a chunk, or of all, in memory. `chunk` itself is not among the files' columns."""
        schema = pa.schema([self._arrow.field(name) for name in columns])
        files = self.held(chunk=chunk)
        self.fetch(files)
        parts = [self.read_file(file.path, columns) for file in files]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def fetch(self, files: Sequence[DataFile]) -> None:
        """Have files on this machine that are to be read one after another."""
        self.place.fetch([file.path for file in files])

    def read_file(self, path: str, columns: Sequence[str]) -> pa.Table:
        """The named columns of one file; what it lacks is null, or for the identity computed."""
        file = pq.ParquetFile(self.place.source(path))
        known = set(file.schema_arrow.names)
        if set(IDENTITY).intersection(columns) and not known.issuperset(IDENTITY):
            return self._identified(path).select(list(columns))
        rows = file.read(columns=[name for name in columns if name in known])
        if APPEND in columns and APPEND not in known:
            number = pa.scalar(_append_of(path), pa.int64())
            rows = rows.append_column(APPEND, pa.repeat(number, file.metadata.num_rows))
        return shaped(rows, [self._arrow.field(name) for name in columns])

    def _identified(self, path: str) -> pa.Table:
        """All columns of a file that was written without identities, with them."""
        named = [name for name in self._arrow.names if name not in (*IDENTITY, "chunk")]
        rows = self.read_file(path, named)
        ids, hashes = fingerprint(self.schema, rows)
        rows = rows.append_column("_id", pa.array(ids, pa.binary())).append_column("_hash", pa.array(hashes))
        return rows.select([name for name in self._arrow.names if name != "chunk"])

    def on_time(self, path: str, columns: Sequence[str]) -> pa.Table:
        """The named columns of one file's rows that did not come late, in memory."""
        rows = self.read_file(path, [*dict.fromkeys([*columns, "_late"])])
        return rows.filter(pc.invert(rows["_late"])).select(list(columns))

    def identities(self, chunk: int) -> np.ndarray[Any, Any]:
        """The identity index entries of a chunk (`archiver.identity.ENTRY`)."""
        rows = self.read(["_id", "_hash", "_unit", "_line"], chunk)
        if not len(rows):
            return np.empty(0, dtype=ENTRY)
        return entries(rows["_id"].to_pylist(), *(rows[name].to_numpy() for name in ("_hash", "_unit", "_line")))

    def loose(self, chunk: int) -> int:
        """Files of a chunk that are as they were appended."""
        held = self._log.chunks.get(chunk)
        return 0 if held is None else sum(_is_loose(path) for path in held.paths)

    def cluster(self, chunk: int) -> None:
        """Rewrite the chunk's appended files as one, clustered by key and time, with statistics and identities.

        Rows stay as they are. Clustered files are left alone, but for those that are not much larger than the new
        one: there are few, and each row is rewritten a few times at most.
        """
        self._log.follow()
        held = self._log.chunks.get(chunk)
        chosen = [] if held is None else to_merge(list(held.paths.values()))
        if not chosen:
            return
        names = [name for name in self._arrow.names if name != "chunk"]
        self.fetch(chosen)
        rows = pa.concat_tables([self.read_file(file.path, names) for file in chosen])
        began = going()
        written = self._write(
            chunk, rows.append_column("chunk", pa.repeat(pa.scalar(chunk, pa.int32()), len(rows))), True
        )
        self._log.commit(
            "OPTIMIZE", [written], [file.path for file in chosen], int(time.time() * 1000), {}, began=began
        )

    def forget(self, chunk: int) -> None:
        """The chunk's files are no part of the table any more."""
        self._log.follow()
        held = self._log.chunks.get(chunk)
        if held is not None:
            self._log.commit("DELETE", (), list(held.paths), int(time.time() * 1000), {})

    def checkpoint(self) -> None:
        """When many commits have come: gather the log, so that opening the table stays fast."""
        self._log.checkpoint()

    def orphans(self) -> list[str]:
        """Files that are no part of the newest version: superseded, or never committed."""
        return self._log.orphans()

    def missing(self) -> list[str]:
        """Files of the version that this object sees which are not there."""
        return self._log.missing()

    @property
    def appends(self) -> int:
        """How many appends there were in the version that this object sees. Nothing but an append adds rows, and none
        goes but with its chunk: the rows of the first so many appends are the table as it was then."""
        return self._log.number

    @property
    def version(self) -> int:
        """The Delta version that this object sees."""
        return self._log.version


def to_merge(files: Sequence[DataFile]) -> list[DataFile]:
    """Which files of a chunk become one: all loose ones, and clustered ones while the result is not much smaller."""
    chosen = [file for file in files if _is_loose(file.path)]
    rows = sum(file.rows for file in chosen)
    for file in sorted((f for f in files if f not in chosen), key=lambda f: f.rows):
        if not chosen or file.rows > _MUCH * rows:
            break
        chosen.append(file)
        rows += file.rows
    return chosen


def _is_loose(path: str) -> bool:
    return not path.split("/", 1)[1].startswith(CLUSTERED)


def _append_of(path: str) -> int | None:
    """The append that a file is all of, by its name. 0: it came before these were counted; None: another program wrote
    it."""
    name = path.split("/", 1)[1]
    if not name.startswith((LOOSE, CLUSTERED)):
        return None
    _, *words, _ = name.split("-")
    return int(words[0]) if words else 0
