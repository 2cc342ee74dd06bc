"""One version of a Delta table: its files and its log, as a copy of the table needs them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from archiver.delta.archive_tables import ArchiveTable
from archiver.delta.digests import parse_digests
from archiver.delta.files import is_adopted, is_written_by_moirae
from archiver.delta.row_ids import RowIds
from archiver.errors import LogDamaged
from archiver.storage import LOG_FOLDER

_COMMIT_NAME = re.compile(r"(\d{20})\.json")
_CHECKPOINT_NAME = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
# Commits, from the newest on, in which files of other programs are looked up: as in `log`.
_FOREIGN_HISTORY = 1_000


@dataclass(frozen=True)
class Commit:
    """A commit of a table. `number`: to which it sets the number of the table; None: it does not.

    `changes_data`: whether rows are added or removed. `added`: paths of files.
    """

    version: int
    number: int | None
    changes_data: bool
    added: Sequence[str]


@dataclass(frozen=True)
class TableVersion:
    """A version of a table. `number`: up to where it holds its source; 0: it counts nothing.

    `files`: the bytes of its data files by path. `digests`, `row_ids` and `place_bytes` (those that
    are not the user's columns): of those whose commit holds them.
    `log_files`: its log by path, without files that readers do not need. All paths are relative to
    the table.
    """

    table: ArchiveTable
    version: int
    number: int
    files: Mapping[str, int]
    digests: Mapping[str, str]
    row_ids: Mapping[str, RowIds]
    place_bytes: Mapping[str, int]
    log_files: Mapping[str, bytes]


def read_newest_version(table: ArchiveTable) -> int:
    """The newest version of a table, by the names of its commits: its log is not read.

    Raises `TableNotFoundError`.
    """
    names = (table.storage / LOG_FOLDER).list_sizes()
    versions = [int(match[1]) for match in map(_COMMIT_NAME.fullmatch, names) if match]
    if not versions:
        raise TableNotFoundError(f"{table.storage}: no Delta table")
    return max(versions)


def read_commits(table: ArchiveTable, first: int, last: int) -> list[Commit]:
    """Commits from one version to another. Raises `FileNotFoundError` and `LogDamaged`."""
    return [_read_commit(table, version) for version in range(first, last + 1)]


def _read_commit(table: ArchiveTable, version: int) -> Commit:
    name = _commit_file(version)
    content = table.storage.read_log_file(name)
    number = None
    changes_data = False
    added: list[str] = []
    try:
        for line in filter(bytes.strip, content.splitlines()):
            action = orjson.loads(line)
            if "txn" in action and action["txn"]["appId"] == table.application_id:
                number = int(action["txn"]["version"])
            for kind in ("add", "remove"):
                if kind in action and action[kind].get("dataChange", True):
                    changes_data = True
            if "add" in action:
                added.append(unquote(action["add"]["path"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LogDamaged(f"{table.storage}/{name}: corrupt commit: {error}") from error
    return Commit(version, number, changes_data, added)


def read_version(table: ArchiveTable, version: int) -> TableVersion:
    """Read a version with its log.

    Raises `FileNotFoundError` if a part of its log is gone, and `LogDamaged`.
    """
    with table.storage.translate_errors():
        delta_table = table.storage.open_table()
        if delta_table.version() != version:
            delta_table.load_as_version(version)
        number = 0
        if table.application_id is not None:
            number = delta_table.transaction_version(table.application_id) or 0
        files = _list_files(delta_table)
    is_foreign = any(not is_written_by_moirae(path) and not is_adopted(path) for path in files)
    log_files = _read_log(table, version, _FOREIGN_HISTORY if is_foreign else 0)
    try:
        digests = parse_digests(log_files)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise LogDamaged(f"{table.storage}: corrupt log: {error}") from error
    return TableVersion(
        table=table,
        version=version,
        number=number,
        files=files,
        digests={path: digest for path, digest in digests.files.items() if path in files},
        row_ids={path: ids for path, ids in digests.rows.items() if path in files},
        place_bytes={path: size for path, size in digests.place_bytes.items() if path in files},
        log_files=log_files,
    )


def _list_files(delta_table: DeltaTable) -> dict[str, int]:
    actions = pa.RecordBatchReader.from_stream(delta_table.get_add_actions(flatten=True)).read_all()
    if not len(actions):
        return {}
    paths = actions["path"].to_pylist()
    return dict(zip(paths, actions["size_bytes"].to_pylist(), strict=True))


def _read_log(table: ArchiveTable, version: int, history: int) -> dict[str, bytes]:
    """The last checkpoint up to a version and the commits from it on.

    `history`: commits before the version that are included, as far as there are some.
    """
    names = (table.storage / LOG_FOLDER).list_sizes()
    checkpoint = _find_checkpoint(names, version)
    first = 0
    log_files: dict[str, bytes] = {}
    if checkpoint is not None:
        first = checkpoint.version
        for name in checkpoint.names:
            log_files[f"{LOG_FOLDER}/{name}"] = table.storage.read_log_file(f"{LOG_FOLDER}/{name}")
        log_files[f"{LOG_FOLDER}/_last_checkpoint"] = _describe_checkpoint(
            checkpoint, list(log_files.values())
        )
    for number in _earlier_commits(names, first, version - history):
        log_files[_commit_file(number)] = table.storage.read_log_file(_commit_file(number))
    for number in range(first, version + 1):
        log_files[_commit_file(number)] = table.storage.read_log_file(_commit_file(number))
    return log_files


def _earlier_commits(names: Mapping[str, int], first: int, oldest: int) -> Iterator[int]:
    """Commits before `first`, from `oldest` on, that follow each other without a gap."""
    number = first - 1
    while number >= max(oldest, 0) and _commit_file(number).rpartition("/")[2] in names:
        yield number
        number -= 1


@dataclass(frozen=True)
class _Checkpoint:
    version: int
    names: Sequence[str]


def _find_checkpoint(names: Mapping[str, int], version: int) -> _Checkpoint | None:
    """The newest checkpoint up to a version of which all parts exist."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = _CHECKPOINT_NAME.fullmatch(name)
        if match and int(match[1]) <= version:
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    complete = [key for key, part_names in parts.items() if len(part_names) == key[1]]
    if not complete:
        return None
    newest = max(complete)
    return _Checkpoint(newest[0], parts[newest])


def _describe_checkpoint(checkpoint: _Checkpoint, contents: Sequence[bytes]) -> bytes:
    """The content of `_last_checkpoint`, which readers look at first."""
    files = [pq.ParquetFile(pa.BufferReader(content)) for content in contents]
    rows = sum(file.metadata.num_rows for file in files)
    description: dict[str, Any] = {"version": checkpoint.version, "size": rows}
    if len(files) > 1:
        description["parts"] = len(files)
    return orjson.dumps(description)


def _commit_file(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"
