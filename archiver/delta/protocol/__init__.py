"""Actions and properties of the Delta tables of an archive. No I/O."""

from archiver.delta.protocol.actions import (
    FIRST_GENERATION,
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
from archiver.delta.protocol.metadata import (
    GENERATION_PROPERTY,
    OWN_COLUMNS_PROPERTY,
    TableMetadata,
    create_actions,
)

__all__ = [
    "CommitSummary",
    "FIRST_GENERATION",
    "FoundFile",
    "GENERATION_PROPERTY",
    "NO_CHUNK",
    "OWN_COLUMNS_PROPERTY",
    "ParsedCommit",
    "TableMetadata",
    "add_action",
    "commit_info_action",
    "create_actions",
    "encode_actions",
    "parse_commit",
    "remove_action",
]
