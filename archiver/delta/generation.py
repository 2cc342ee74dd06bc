"""Generations of an archive: a restore begins one, and writers of earlier ones are refused.

A table whose property says another generation than when a process opened it was restored meanwhile.
Each commit of a later generation names it, so that it is recognised in the log, too.
"""

from collections.abc import Mapping
from typing import Any

from archiver.delta.protocol import (
    FIRST_GENERATION,
    GENERATION_PROPERTY,
    CommitSummary,
    TableMetadata,
    commit_info_action,
    encode_actions,
)
from archiver.errors import CommitConflict
from archiver.storage import LOG_FOLDER, Storage


def read_generation(properties: Mapping[str, str]) -> int:
    """The generation of a table by its properties."""
    return int(properties.get(GENERATION_PROPERTY, FIRST_GENERATION))


def begin_generation(storage: Storage, generation: int, timestamp: int) -> None:
    """Commit that a restored table begins a generation, unless it has. `timestamp`: milliseconds.

    Raises `CommitConflict` if another process writes to the table.
    """
    with storage.translate_errors():
        table = storage.open_table()
    metadata = TableMetadata.of(table)
    if read_generation(metadata.properties) == generation:
        return
    configuration = {**metadata.properties, GENERATION_PROPERTY: str(generation)}
    changed: dict[str, Any] = {**metadata.metadata, "configuration": configuration}
    info = commit_info_action(
        CommitSummary("RESTORE"),
        timestamp,
        in_commit_timestamp=metadata.has_in_commit_timestamps,
        generation=generation,
    )
    content = encode_actions([info, {"metaData": changed}])
    with storage.prepare_commit(content) as commit:
        if not commit(f"{LOG_FOLDER}/{table.version() + 1:020d}.json"):
            raise CommitConflict
