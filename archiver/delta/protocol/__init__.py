"""Actions, properties and file names of the Delta tables of an archive. No I/O."""

from archiver.delta.protocol.actions import (
    NO_CHUNK,
    CommitSummary,
    FoundFile,
    ParsedCommit,
    add_action,
    commit_info_action,
    encode_actions,
    parse_commit,
    remove_action,
)
from archiver.delta.protocol.files import (
    ADOPTED_PREFIX,
    CLUSTERED_PREFIX,
    UNCLUSTERED_PREFIX,
    ChunkFiles,
    DataFile,
    RemovedFile,
    is_adopted,
    is_written_by_moirae,
    upper_bound,
)
from archiver.delta.protocol.metadata import (
    TableMetadata,
    create_actions,
)

__all__ = [
    "ADOPTED_PREFIX",
    "CLUSTERED_PREFIX",
    "ChunkFiles",
    "CommitSummary",
    "DataFile",
    "FoundFile",
    "NO_CHUNK",
    "ParsedCommit",
    "RemovedFile",
    "TableMetadata",
    "UNCLUSTERED_PREFIX",
    "add_action",
    "commit_info_action",
    "create_actions",
    "encode_actions",
    "is_adopted",
    "is_written_by_moirae",
    "parse_commit",
    "remove_action",
    "upper_bound",
]
