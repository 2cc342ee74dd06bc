"""Makes the log of a stream's table anew where commits are lost, from the data files that exist.

Which files belong to the table is decided by the identities of their rows: a file whose rows are in
no other one was appended; a file whose rows all are in another one was replaced by it.
"""

import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from archiver.clock import unix_now
from archiver.delta.archive_tables import ArchiveTable
from archiver.delta.data_files import TableFiles, append_number
from archiver.delta.declarations import DECLARATIONS_PROPERTY, encode_declarations
from archiver.delta.declared_table import APPENDS_APPLICATION_ID
from archiver.delta.digests import compute_digest
from archiver.delta.files import DataFile, is_written_by_moirae
from archiver.delta.generation import read_generation
from archiver.delta.log_checks import LogCheck, find_commit_damage
from archiver.delta.protocol import (
    CommitSummary,
    TableMetadata,
    add_action,
    commit_info_action,
    create_actions,
    encode_actions,
    parse_commit,
)
from archiver.delta.schema import StreamSchema
from archiver.storage import LOG_FOLDER
from archiver.times import micros_column

_OPERATION = "REPAIR"


@dataclass(frozen=True)
class LogRepair:
    """What a repaired log has. `added`: files that a lost commit had added; `removed`: paths and
    bytes of files that a lost commit had removed; `unreadable`: files that cannot be told.
    `number`: of the last append. `version`: of the commit that says so.
    """

    added: Sequence[DataFile]
    removed: Mapping[str, int]
    unreadable: Sequence[str]
    number: int
    version: int
    generation: int
    replacements: Mapping[str, bytes]


def remove_files(table: ArchiveTable, paths: Collection[str]) -> None:
    """Commit that files, which are lost, are no part of a table any more."""
    with table.storage.translate_errors():
        delta_table = table.storage.open_table()
        version = delta_table.version() + 1
        sizes = _list_sizes(delta_table)
        generation = read_generation(TableMetadata.of(delta_table).properties)
    now = int(unix_now() * 1000)
    actions = [_remove(path, sizes[path], now) for path in paths if path in sizes]
    if actions:
        _commit(table, version, [_info(now, generation), *actions])


def plan_log_repair(table: ArchiveTable, check: LogCheck, declared: StreamSchema) -> LogRepair:
    """What the log of a stream's table has to say, without its damaged commits.

    `declared`: the stream as the workspace declares it. Raises `OSError` and `ArchiverError`.
    """
    with _readable_copy(table, check, declared) as (copy, replacements):
        delta_table = DeltaTable(copy)
        active = _list_sizes(delta_table)
        number = delta_table.transaction_version(APPENDS_APPLICATION_ID) or 0
        generation = read_generation(TableMetadata.of(delta_table).properties)
    named = active.keys() | _list_named(table)
    unknown = [
        path
        for path in table.storage.list_files()
        if path not in named and is_written_by_moirae(path)
    ]
    files = TableFiles(declared, table.storage)
    plan = _FilePlan(files)
    for path in sorted(active):
        plan.read(path)
    for path in sorted(unknown, key=lambda path: (append_number(path) or 0, path)):
        plan.read(path)
    added, removed = plan.choose(set(active))
    numbers = [append_number(path) or 0 for path in (*active, *(file.path for file in added))]
    return LogRepair(
        added=added,
        removed={path: active[path] for path in removed},
        unreadable=plan.unreadable,
        number=max([number, *numbers]),
        version=check.newest + 1,
        generation=generation,
        replacements=replacements,
    )


def repair_log(table: ArchiveTable, repair: LogRepair, time_column: str) -> None:
    """Commit a plan, then replace the damaged commits by empty ones: in this order, so that a run
    after an interruption finds the damage, and nothing left to add.
    """
    now = int(unix_now() * 1000)
    actions: list[Mapping[str, Any]] = [_info(now, repair.generation)]
    actions += [_remove(path, size, now) for path, size in repair.removed.items()]
    actions += [add_action(file, time_column, now, data_change=True) for file in repair.added]
    transaction = {"appId": APPENDS_APPLICATION_ID, "version": repair.number, "lastUpdated": now}
    actions.append({"txn": transaction})
    _commit(table, repair.version, actions)
    for name, content in repair.replacements.items():
        with table.storage.write_stream(name) as file:
            file.write(content)


class _FilePlan:
    """Chooses files by the identities of their rows."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._ids: dict[str, frozenset[bytes]] = {}
        self._described: dict[str, DataFile] = {}
        self.unreadable: list[str] = []

    def read(self, path: str) -> None:
        """Read the identities of a file."""
        time_name = self._files.schema.time
        try:
            rows = self._files.read(path, ["_id", time_name])
            size = self._files.storage.list_sizes()[path]
        except (OSError, KeyError, pa.ArrowException):
            self.unreadable.append(path)
            return
        self._ids[path] = frozenset(rows["_id"].to_pylist())
        times = micros_column(rows, time_name)
        if not len(rows):
            return
        (local_path,) = self._files.storage.lease_paths([path])
        self._described[path] = DataFile(
            path=path,
            chunk=int(path.split("/", 1)[0].removeprefix("chunk=")),
            rows=len(rows),
            bytes=size,
            oldest=int(times.min()),
            newest=int(times.max()),
            digest=compute_digest(Path(local_path)),
        )

    def choose(self, active: set[str]) -> tuple[list[DataFile], list[str]]:
        """The files to add, and the paths of active ones to remove.

        Of files with common rows the one with more rows holds; of equal ones the active one.
        """
        chosen: dict[str, set[bytes]] = {}
        ordered = sorted(
            self._described, key=lambda path: (-len(self._ids[path]), path not in active, path)
        )
        for path in ordered:
            folder = path.rpartition("/")[0]
            present = chosen.setdefault(folder, set())
            if self._ids[path] <= present:
                self._ids.pop(path)
                continue
            present |= self._ids[path]
        added = [
            self._described[path] for path in ordered if path in self._ids and path not in active
        ]
        removed = [path for path in ordered if path not in self._ids and path in active]
        return added, removed


@contextmanager
def _readable_copy(
    table: ArchiveTable, check: LogCheck, declared: StreamSchema
) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """A copy of the log without damaged commits, and what replaces these by name."""
    damaged = [file.name for file in check.damaged if file.kind == "commit"]
    replacements = {name: encode_actions([_info(0, 1)]) for name in damaged}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        (copy / LOG_FOLDER).mkdir()
        for name in (table.storage / LOG_FOLDER).list_sizes():
            path = f"{LOG_FOLDER}/{name}"
            if name.endswith((".json", ".parquet")) and path not in replacements:
                (copy / path).write_bytes(table.storage.read_log_file(path))
        for file in check.damaged:
            if file.kind == "checkpoint":
                (copy / file.name).unlink(missing_ok=True)
        for name, content in replacements.items():
            (copy / name).write_bytes(content)
        try:
            DeltaTable(copy)
        except DeltaError:  # the commit with the columns is lost, too
            properties = {DECLARATIONS_PROPERTY: encode_declarations(declared)}
            created = create_actions(declared.arrow_schema(), 0, properties)
            replacements[damaged[0]] = encode_actions([_info(0, 1), *created])
            (copy / damaged[0]).write_bytes(replacements[damaged[0]])
        yield copy, replacements
        shutil.rmtree(copy / LOG_FOLDER)


def _list_named(table: ArchiveTable) -> set[str]:
    """Files that a readable commit has added or removed."""
    names: set[str] = set()
    for name in sorted((table.storage / LOG_FOLDER).list_sizes()):
        path = f"{LOG_FOLDER}/{name}"
        if name.endswith(".json") and find_commit_damage(table.storage, path) is None:
            commit = parse_commit(table.storage.read_log_file(path), "", None)
            names.update(commit.removed)
            names.update(file.path for file in commit.added)
    return names


def _list_sizes(delta_table: DeltaTable) -> dict[str, int]:
    actions = pa.RecordBatchReader.from_stream(delta_table.get_add_actions(flatten=True)).read_all()
    if not len(actions):
        return {}
    return dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))


def _info(timestamp: int, generation: int) -> dict[str, Any]:
    return commit_info_action(CommitSummary(_OPERATION), timestamp, generation=generation)


def _remove(path: str, size: int, timestamp: int) -> dict[str, Any]:
    return {
        "remove": {
            "path": path,
            "deletionTimestamp": timestamp,
            "dataChange": True,
            "extendedFileMetadata": False,
            "size": size,
        }
    }


def _commit(table: ArchiveTable, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    with table.storage.write_stream(f"{LOG_FOLDER}/{version:020d}.json") as file:
        file.write(encode_actions(actions))
