"""Where a workspace stores data: its archive, accepted batches, and the free space for them."""

from moirae.runtime.storage.archive import check_storage, open_storage
from moirae.runtime.storage.declarations import (
    check_declarations,
    find_altered_types,
    find_changed_types,
    find_declaration_problems,
)
from moirae.runtime.storage.disk_space import DISK_RESERVE, DiskSpace, measure_disk_space
from moirae.runtime.storage.generation import (
    RestoreMark,
    check_generation,
    check_restored,
    read_archive_identity,
    read_restore_mark,
    remove_restore_mark,
    write_archive_identity,
    write_restore_mark,
)
from moirae.runtime.storage.landing import LandedBatch, Landing
from moirae.runtime.storage.landings import Landings
from moirae.runtime.storage.redacted_batches import redact_batch, redact_file
from moirae.runtime.storage.removed_streams import (
    archived_streams,
    list_filled_tables,
    recalled_streams,
    with_removed_streams,
)

__all__ = [
    "write_restore_mark",
    "write_archive_identity",
    "remove_restore_mark",
    "read_restore_mark",
    "read_archive_identity",
    "check_restored",
    "check_generation",
    "DISK_RESERVE",
    "DiskSpace",
    "LandedBatch",
    "Landing",
    "Landings",
    "RestoreMark",
    "archived_streams",
    "check_declarations",
    "check_storage",
    "find_altered_types",
    "find_changed_types",
    "find_declaration_problems",
    "list_filled_tables",
    "measure_disk_space",
    "open_storage",
    "redact_batch",
    "redact_file",
    "recalled_streams",
    "with_removed_streams",
]
