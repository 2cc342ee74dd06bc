"""The identity of a workspace in its archive, which has to be that of its database.

Both hold an id, and a generation that counts restores from backups. A process whose database is of
an earlier generation than the archive must not write: the workspace was restored elsewhere.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import orjson

import sql
from moirae.config import Settings
from moirae.errors import MoiraeError
from moirae.runtime.embedded_database import RESTORE_MARK
from moirae.runtime.storage.archive import open_storage
from sql.workspace import WorkspaceGateway, WorkspaceRow

# Counts changes of the archive that earlier versions cannot read. 2: files of closed chunks store
# nothing that can be computed.
ARCHIVE_FORMAT = 2
_FIRST_FORMAT = 1
_IDENTITY_FILE = "moirae-workspace.json"


@dataclass(frozen=True)
class RestoreMark:
    """A restore that is not complete: the backup, and the generation that it begins."""

    backup: str
    generation: int


def check_generation(settings: Settings, connection: sql.Connection) -> None:
    """Check that database and archive are of one generation of one workspace.

    An archive without identity, as of an earlier version, takes that of the database; one of an
    earlier format is of the present one from now on. Raises `MoiraeError`.
    """
    identity = WorkspaceGateway(connection).get()
    document = _read_document(settings)
    if document is not None:
        problem = _compare(settings, identity, document.workspace, document.generation)
        if problem is not None:
            raise MoiraeError(problem)
    if document is None or document.format < ARCHIVE_FORMAT:
        write_archive_identity(settings, identity.id, identity.generation)


def _compare(
    settings: Settings, identity: WorkspaceRow, archived_id: UUID, generation: int
) -> str | None:
    if archived_id != identity.id:
        return (
            f"the archive {settings.archive} belongs to another workspace ({archived_id}) than the "
            f"database ({identity.id}): check `archive` and `database` in {settings.file}, or "
            "restore a backup with `moirae restore`"
        )
    if generation > identity.generation:
        return (
            f"the archive {settings.archive} was restored from a backup (generation {generation}); "
            f"this database is of generation {identity.generation}: only the restored workspace "
            "may run"
        )
    if generation < identity.generation:
        return (
            f"the database was restored from a backup (generation {identity.generation}); the "
            f"archive {settings.archive} is of generation {generation}: restore both together with "
            "`moirae restore`"
        )
    return None


def read_archive_identity(settings: Settings) -> tuple[UUID, int] | None:
    """Workspace and generation of the archive; None: they are not recorded."""
    document = _read_document(settings)
    return None if document is None else (document.workspace, document.generation)


class _Document(NamedTuple):
    """What the archive says of itself."""

    workspace: UUID
    generation: int
    format: int


def _read_document(settings: Settings) -> _Document | None:
    from archiver.storage import as_storage

    storage = as_storage(open_storage(settings))
    try:
        content = storage.read_log_file(_IDENTITY_FILE)
    except FileNotFoundError:
        return None
    try:
        document = orjson.loads(content)
        number = int(document.get("format", _FIRST_FORMAT))
        _check_format(f"{storage}", number)
        return _Document(UUID(document["workspace"]), int(document["generation"]), number)
    except (KeyError, TypeError, ValueError) as error:
        raise MoiraeError(
            f"{storage}/{_IDENTITY_FILE}: damaged: {error}: restore it from a backup"
        ) from error


def _check_format(archive: str, number: int) -> None:
    if number > ARCHIVE_FORMAT:
        raise MoiraeError(
            f"{archive}: the archive has format {number}, this version of Moirae knows "
            f"{ARCHIVE_FORMAT}: update Moirae"
        )


def write_archive_identity(settings: Settings, workspace: UUID, generation: int) -> None:
    """Record workspace and generation of the archive."""
    from archiver.storage import as_storage

    document = {
        "workspace": str(workspace),
        "generation": generation,
        "format": ARCHIVE_FORMAT,
    }
    with as_storage(open_storage(settings)).write_stream(_IDENTITY_FILE) as file:
        file.write(orjson.dumps(document, option=orjson.OPT_INDENT_2))


def check_restored(home: Path) -> None:
    """Raise `MoiraeError` if the workspace is being restored, or its restore was interrupted."""
    mark = read_restore_mark(home)
    if mark is not None:
        raise MoiraeError(
            f"{home}: the restore of backup {mark.backup} is not complete: "
            "run `moirae restore` again"
        )


def read_restore_mark(home: Path) -> RestoreMark | None:
    """The restore into a home that is not complete; None: there is none. Raises `MoiraeError`."""
    path = home / RESTORE_MARK
    try:
        document = orjson.loads(path.read_bytes())
        return RestoreMark(str(document["backup"]), int(document["generation"]))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise MoiraeError(f"{path}: damaged: {error}: remove {home}, and restore again") from error


def write_restore_mark(home: Path, mark: RestoreMark) -> None:
    """Record that a backup is being restored: nothing else may start."""
    from archiver.storage import LocalStorage

    with LocalStorage(home).write_stream(RESTORE_MARK) as file:
        file.write(orjson.dumps({"backup": mark.backup, "generation": mark.generation}))


def remove_restore_mark(home: Path) -> None:
    """Record that a restore is complete."""
    with suppress(FileNotFoundError):
        (home / RESTORE_MARK).unlink()
