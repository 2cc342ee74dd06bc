"""Commits of another program to a Delta table, without statistics, as any writer may make them."""

import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import orjson
import pyarrow as pa
import pyarrow.parquet as pq


def commit_rows(
    folder: Path, rows: pa.Table, *, chunk: int | None = 0, remove: Sequence[str] = ()
) -> str:
    """Append rows, or replace files by them as a rewrite. Returns the path of the new file."""
    partition = "__HIVE_DEFAULT_PARTITION__" if chunk is None else chunk
    path = f"chunk={partition}/part-{uuid4().hex}.parquet"
    (folder / path).parent.mkdir(exist_ok=True)
    if "chunk" in rows.column_names:
        rows = rows.drop_columns(["chunk"])
    pq.write_table(rows, folder / path)
    values = {"chunk": None if chunk is None else str(chunk)}
    data_change = not remove
    add = {
        "path": path,
        "partitionValues": values,
        "size": (folder / path).stat().st_size,
        "modificationTime": 0,
        "dataChange": data_change,
    }
    actions: list[dict[str, object]] = [{"add": add}]
    for name in remove:
        actions.append(
            {"remove": {"path": name, "deletionTimestamp": 0, "dataChange": data_change}}
        )
    commit_actions(folder, actions)
    return path


def commit_actions(folder: Path, actions: Sequence[dict[str, object]]) -> None:
    """Write the next commit."""
    log = folder / "_delta_log"
    version = 1 + max(int(file.stem) for file in log.glob("*.json"))
    now = int(time.time() * 1000) + version
    info = {"inCommitTimestamp": now, "operation": "WRITE", "engineInfo": "another"}
    lines = [{"commitInfo": info}, *actions]
    content = b"\n".join(map(orjson.dumps, lines))
    (log / f"{version:020d}.json").write_bytes(content)
