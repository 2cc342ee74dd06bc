"""Actions of Delta commits: built for commits of this program, parsed from all commits."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import orjson

from archiver.delta.digests import make_tags, parse_row_ids
from archiver.delta.files import (
    DataFile,
    RemovedFile,
    is_adopted,
    is_written_by_moirae,
    upper_bound,
)
from archiver.times import Micros, format_micros, to_micros

# The chunk of rows to which another program gave no chunk: of no catalog.
NO_CHUNK = -1
_ENGINE = "Moirae"
FIRST_GENERATION = 1
_GENERATION_MARK = f"{_ENGINE} generation "


@dataclass(frozen=True)
class CommitSummary:
    """What `DESCRIBE HISTORY` shows of a commit, besides its version and time."""

    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    user_metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FoundFile:
    """A file of an `add` action. `bounds`: (rows, oldest, newest), None without statistics.

    `replaced_paths`: files that its commit removed, of which its rows may be. `is_appended`: its
    commit says that its rows are new, unless it removed files. `ids`: see `DataFile`.
    """

    path: str
    chunk: int
    bytes: int
    bounds: tuple[int, Micros, Micros] | None
    replaced_paths: Sequence[str] = ()
    is_appended: bool = False
    ids: str | None = None

    def is_foreign(self, is_foreign_path: Callable[[str], bool]) -> bool:
        """Whether another program appended its rows, or those of all files that it replaces."""
        if is_adopted(self.path) or is_written_by_moirae(self.path):
            return is_adopted(self.path)
        if self.replaced_paths:
            return all(map(is_foreign_path, self.replaced_paths))
        return self.is_appended

    def with_bounds(self, rows: int, oldest: Micros, newest: Micros) -> DataFile:
        """The file with bounds that were read from it; `is_foreign` is not set."""
        return DataFile(self.path, self.chunk, rows, self.bytes, oldest, newest, ids=self.ids)


@dataclass(frozen=True)
class ParsedCommit:
    """The actions of one commit.

    `sequence_number`: None if the commit does not set it. `generation`: of the process that made
    it; None: it was made by another program. `timestamp`: the in-commit timestamp,
    milliseconds; None without one. `metadata`, `protocol`: the actions of these names.
    `changes_data`: whether rows are added or removed, and not only stored otherwise.
    """

    added: Sequence[FoundFile]
    removed: Mapping[str, RemovedFile]
    sequence_number: int | None
    timestamp: int | None
    author: str
    metadata: Mapping[str, Any] | None
    protocol: Mapping[str, Any] | None
    has_deletion_vectors: bool
    generation: int | None = None
    changes_data: bool = False


def parse_commit(content: bytes, time_column: str, application_id: str | None) -> ParsedCommit:
    """Parse the lines of a commit file, one JSON action each.

    Raises `KeyError`, `TypeError` or `ValueError` for a corrupt commit.
    """
    actions = [orjson.loads(line) for line in filter(bytes.strip, content.splitlines())]
    if not actions:
        raise ValueError("file is empty")
    last: dict[str, Any] = {}
    adds: list[Mapping[str, Any]] = []
    removed: dict[str, RemovedFile] = {}
    sequence_number = None
    changes_data = False
    for action in actions:
        last.update(action)
        if "add" in action:
            adds.append(action["add"])
            changes_data |= action["add"].get("dataChange", True)
        if "remove" in action:
            remove = action["remove"]
            changes_data |= remove.get("dataChange", True)
            removed_file = RemovedFile(
                remove.get("deletionTimestamp") or 0, remove.get("size") or 0
            )
            removed[unquote(remove["path"])] = removed_file
        if "txn" in action and action["txn"]["appId"] == application_id:
            sequence_number = int(action["txn"]["version"])
    info = last.get("commitInfo") or {}
    return ParsedCommit(
        added=[_parse_add(add, time_column, removed) for add in adds],
        removed=removed,
        sequence_number=sequence_number,
        timestamp=info.get("inCommitTimestamp"),
        author=f"{info.get('operation', 'commit')} by {info.get('engineInfo', 'unknown')}",
        metadata=last.get("metaData"),
        protocol=last.get("protocol"),
        has_deletion_vectors=any(add.get("deletionVector") for add in adds),
        generation=_parse_generation(info.get("engineInfo")),
        changes_data=changes_data,
    )


def _parse_generation(engine: Any) -> int | None:
    if engine == _ENGINE:
        return FIRST_GENERATION
    if isinstance(engine, str) and engine.startswith(_GENERATION_MARK):
        return int(engine.removeprefix(_GENERATION_MARK))
    return None


def _parse_add(add: Mapping[str, Any], time_column: str, removed: Collection[str]) -> FoundFile:
    """`removed`: paths that the commit removes. Those of the same chunk are replaced, if any."""
    path = unquote(add["path"])
    chunk = add["partitionValues"]["chunk"]
    folder = path.rpartition("/")[0]
    same_chunk = [name for name in removed if name.rpartition("/")[0] == folder]
    return FoundFile(
        path=path,
        chunk=NO_CHUNK if chunk in (None, "") else int(chunk),
        bytes=add["size"],
        bounds=_parse_bounds(path, add.get("stats"), time_column),
        replaced_paths=same_chunk or list(removed),
        is_appended=bool(add.get("dataChange", True)),
        ids=parse_row_ids(add.get("tags")),
    )


def _parse_bounds(
    path: str, text: str | None, time_column: str
) -> tuple[int, Micros, Micros] | None:
    """Rows, oldest and newest event time of the statistics; None if one of them is missing."""
    stats = orjson.loads(text) if text else {}
    rows = stats.get("numRecords")
    oldest = (stats.get("minValues") or {}).get(time_column)
    newest = (stats.get("maxValues") or {}).get(time_column)
    if rows is None or oldest is None or newest is None:
        return None
    return rows, _parse_time(oldest), upper_bound(path, _parse_time(newest))


def encode_actions(actions: Sequence[Mapping[str, Any]]) -> bytes:
    """The content of a commit file."""
    return b"\n".join(map(orjson.dumps, actions)) + b"\n"


def commit_info_action(
    summary: CommitSummary,
    timestamp: int,
    *,
    add: Sequence[DataFile] = (),
    remove: Sequence[DataFile] = (),
    in_commit_timestamp: bool = False,
    generation: int = FIRST_GENERATION,
) -> dict[str, Any]:
    """What `DESCRIBE HISTORY` shows. It has to be the first action of its commit.

    `timestamp`: milliseconds. `in_commit_timestamp`: it is the time of the version, and larger than
    that of the version before; otherwise readers take the modification time of the commit file.
    """
    engine = _ENGINE if generation == FIRST_GENERATION else f"{_GENERATION_MARK}{generation}"
    info: dict[str, Any] = {
        "timestamp": timestamp,
        "operation": summary.operation,
        "operationParameters": dict(summary.parameters),
        "isBlindAppend": bool(add) and not remove,
        "operationMetrics": _metrics(summary.operation, add, remove),
        "engineInfo": engine,
        "txnId": str(uuid4()),
    }
    if in_commit_timestamp:
        info["inCommitTimestamp"] = timestamp
    if summary.user_metadata is not None:
        info["userMetadata"] = orjson.dumps(summary.user_metadata).decode()
    return {"commitInfo": info}


def _metrics(operation: str, add: Sequence[DataFile], remove: Sequence[DataFile]) -> dict[str, str]:
    """Metrics under the names that Spark gives them for the operation."""
    added_bytes = sum(file.bytes for file in add)
    removed_bytes = sum(file.bytes for file in remove)
    if operation == "OPTIMIZE":
        metrics = {
            "numAddedFiles": len(add),
            "numAddedBytes": added_bytes,
            "numRemovedFiles": len(remove),
            "numRemovedBytes": removed_bytes,
        }
    elif operation == "DELETE":
        metrics = {
            "numRemovedFiles": len(remove),
            "numRemovedBytes": removed_bytes,
            "numDeletedRows": sum(file.rows for file in remove),
        }
    else:
        metrics = {
            "numFiles": len(add),
            "numOutputRows": sum(file.rows for file in add),
            "numOutputBytes": added_bytes,
        }
        if remove:
            metrics["numRemovedFiles"] = len(remove)
            metrics["numRemovedBytes"] = removed_bytes
    return {name: str(value) for name, value in metrics.items()}


def add_action(
    file: DataFile, time_column: str, timestamp: int, data_change: bool
) -> dict[str, Any]:
    """The action that adds a file. `timestamp`: milliseconds."""
    stats = {
        "numRecords": file.rows,
        "minValues": {time_column: format_micros(file.oldest)},
        "maxValues": {time_column: format_micros(file.newest)},
    }
    if not file.is_foreign:
        stats["nullCount"] = {time_column: 0}
    action: dict[str, Any] = {
        "path": file.path,
        "partitionValues": {"chunk": str(file.chunk)},
        "size": file.bytes,
        "modificationTime": timestamp,
        "dataChange": data_change,
        "stats": orjson.dumps(stats).decode(),
    }
    tags = make_tags(file)
    if tags:
        action["tags"] = tags
    return {"add": action}


def remove_action(file: DataFile, timestamp: int, data_change: bool) -> dict[str, Any]:
    """The action that removes a file. `timestamp`: milliseconds."""
    chunk = None if file.chunk == NO_CHUNK else str(file.chunk)
    action = {
        "path": file.path,
        "deletionTimestamp": timestamp,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {"chunk": chunk},
        "size": file.bytes,
    }
    return {"remove": action}


def _parse_time(text: str) -> Micros:
    return to_micros(datetime.fromisoformat(text))
