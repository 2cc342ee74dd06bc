"""Checks of the log of a table: a damaged commit may be passed over by readers, without an error."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from archiver.storage import LOG_FOLDER, Storage

_COMMIT_NAME = re.compile(r"(\d{20})\.json")
_CHECKPOINT_NAME = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet")
_ACTIONS = {"add", "remove", "metaData", "protocol", "txn", "commitInfo", "cdc", "domainMetadata"}

LogDamageKind = Literal["commit", "checkpoint"]


@dataclass(frozen=True)
class DamagedLogFile:
    """A file of the log that cannot be read, or that is missing between others."""

    name: str
    version: int
    kind: LogDamageKind
    text: str


@dataclass(frozen=True)
class LogCheck:
    """`first`: the version from which commits are needed; `newest`: the last one that is there."""

    first: int
    newest: int
    damaged: Sequence[DamagedLogFile]


def check_log(storage: Storage) -> LogCheck:
    """Whether readers of the newest version of a table can read all that they need."""
    names = sorted((storage / LOG_FOLDER).list_sizes())
    damaged: list[DamagedLogFile] = []
    checkpoint = -1
    for name in reversed(names):
        match = _CHECKPOINT_NAME.fullmatch(name)
        if match is None:
            continue
        reason = _find_checkpoint_damage(storage, name)
        if reason is None:
            checkpoint = int(match[1])
            break
        path = f"{LOG_FOLDER}/{name}"
        damaged.append(DamagedLogFile(path, int(match[1]), "checkpoint", f"{path}: {reason}"))
    damaged += _find_pointer_damage(storage, names)
    commits = {int(match[1]) for name in names if (match := _COMMIT_NAME.fullmatch(name))}
    newest = max(commits, default=checkpoint)
    for version in range(checkpoint + 1, newest + 1):
        name = f"{LOG_FOLDER}/{version:020d}.json"
        reason = find_commit_damage(storage, name) if version in commits else "is missing"
        if reason is not None:
            damaged.append(DamagedLogFile(name, version, "commit", f"{name}: {reason}"))
    return LogCheck(checkpoint + 1, newest, damaged)


def _find_checkpoint_damage(storage: Storage, name: str) -> str | None:
    try:
        content = storage.read_log_file(f"{LOG_FOLDER}/{name}")
        pq.read_table(pa.BufferReader(content))
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read: {str(error).partition(chr(10))[0]}"
    return None


def _find_pointer_damage(storage: Storage, names: Sequence[str]) -> Iterator[DamagedLogFile]:
    """`_last_checkpoint` names a checkpoint that is there; readers do without the file."""
    name = f"{LOG_FOLDER}/_last_checkpoint"
    if "_last_checkpoint" not in names:
        return
    try:
        version = int(orjson.loads(storage.read_log_file(name))["version"])
    except (KeyError, TypeError, ValueError):
        yield DamagedLogFile(name, 0, "checkpoint", f"{name}: cannot be read")
        return
    if not any(candidate.startswith(f"{version:020d}.checkpoint") for candidate in names):
        text = f"{name}: names version {version}, which has no checkpoint"
        yield DamagedLogFile(name, version, "checkpoint", text)


def find_commit_damage(storage: Storage, name: str) -> str | None:
    """Why a commit file cannot be read; None: it can."""
    lines = list(filter(bytes.strip, storage.read_log_file(name).splitlines()))
    if not lines:
        return "is empty"
    for line in lines:
        try:
            action = orjson.loads(line)
        except ValueError:
            return "is not valid JSON"
        if not isinstance(action, dict) or not _ACTIONS & action.keys():
            return "has a line that is no action"
        for kind in ("add", "remove"):
            if kind in action and not isinstance(action[kind].get("path"), str):
                return f"has an action `{kind}` without a path"
    return None
