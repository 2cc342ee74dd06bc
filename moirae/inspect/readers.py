"""Whether other programs can read the tables of streams: each installed reader opens them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec

import duckdb
import pyarrow.parquet as pq
from deltalake import DeltaTable

from archiver.delta import NO_CHUNK, DataFile, StreamTable
from archiver.storage import LocalStorage
from moirae.inspect.finding import Finding

# Chunks of a table that are read: one for each layout of its files.
_MAX_CHUNKS = 5

# Reads all columns of some files, which are all of a chunk; returns the number of rows.
ReadChunk = Callable[[StreamTable, int, Sequence[DataFile]], int]


def check_readers(stream: str, table: StreamTable) -> Iterator[Finding]:
    """For each reader whether it reads one chunk of each layout of files as the table says."""
    if not isinstance(table.storage, LocalStorage):
        yield Finding(f"{stream}: readable by other programs", (), "not checked: in object storage")
        return
    chunks = select_chunks(table)
    for name, read_chunk in list_readers().items():
        problems: list[str] = []
        for chunk in chunks:
            problem = try_chunk(table, chunk, read_chunk)
            if problem is not None:
                problems.append(problem)
        chunk_count = f"{len(chunks)} chunk" if len(chunks) == 1 else f"{len(chunks)} chunks"
        yield Finding(f"{stream}: readable by {name}", problems, f"{chunk_count} read")


def try_chunk(table: StreamTable, chunk: int, read_chunk: ReadChunk) -> str | None:
    """Read a chunk. Returns why that fails; None: it has all rows."""
    files = table.data_files(chunk=chunk)
    expected = sum(file.rows for file in files)
    try:
        rows = read_chunk(table, chunk, files)
    except Exception as error:  # of any kind: that is what is looked for
        return f"chunk {chunk}: {str(error).strip().splitlines()[0][:300]}"
    if rows != expected:
        return f"chunk {chunk}: {rows:,} rows read, the table has {expected:,}"
    return None


def select_chunks(table: StreamTable) -> list[int]:
    """The chunks of files that differ in the types of their columns, up to a number."""
    chunks: dict[tuple[tuple[str, str], ...], int] = {}
    for chunk in sorted(table.files_by_chunk(), reverse=True):
        if chunk == NO_CHUNK:
            continue
        for file in table.data_files(chunk=chunk):
            stored = pq.read_schema(table.storage.open_data_file(file.path))
            layout = tuple((field.name, str(field.type)) for field in stored)
            chunks.setdefault(layout, chunk)
    return list(dict.fromkeys(chunks.values()))[:_MAX_CHUNKS]


def list_readers() -> Mapping[str, ReadChunk]:
    """The readers that are installed, by name. Spark is one of the Delta checks."""
    readers: dict[str, ReadChunk] = {"delta-rs": _read_by_delta_rs}
    if find_spec("pandas") is not None:
        readers["pandas"] = _read_by_pandas
    readers["DuckDB"] = _read_by_duckdb
    return readers


def _read_by_delta_rs(table: StreamTable, chunk: int, files: Sequence[DataFile]) -> int:
    delta_table = DeltaTable(table.data_folder, version=table.version)
    return len(delta_table.to_pyarrow_table(filters=[("chunk", "=", chunk)]))


def _read_by_pandas(table: StreamTable, chunk: int, files: Sequence[DataFile]) -> int:
    delta_table = DeltaTable(table.data_folder, version=table.version)
    return len(delta_table.to_pandas(filters=[("chunk", "=", chunk)]))


def _read_by_duckdb(table: StreamTable, chunk: int, files: Sequence[DataFile]) -> int:
    """Read the files themselves; columns have the types of the table."""
    relation = duckdb.connect().read_parquet(table.to_local_paths(files), union_by_name=True)
    stored_types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    for field in table.schema.arrow_schema():
        stored_type = stored_types.get(field.name)
        expected_type = _DUCKDB_TYPES.get(str(field.type))
        is_checked = stored_type is not None and not table.is_rewriting
        if is_checked and stored_type != expected_type:
            raise ValueError(f"column {field.name} is {stored_type} in files, not {expected_type}")
    return len(relation.to_arrow_table())


_DUCKDB_TYPES = {
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
    "binary": "BLOB",
}
