"""Streams that have a new name (`was: OLD`): their ledger, table and landing folder get it.

The ledger records the new name first and takes it last. What happens in between may be repeated, so
that a rename that was interrupted goes on at the next start.
"""

import structlog

import sql
from archiver.storage import Storage, StorageRoot, as_storage
from moirae.config import Settings, locate
from moirae.errors import Problem, ProblemsError
from moirae.runtime.storage import Landings
from sql.archive import StreamRename, StreamRenameGateway

_LOG = structlog.get_logger()


def rename_streams(settings: Settings, connection: sql.Connection, root: StorageRoot) -> None:
    """Rename the streams that `was` names, unless that is done. Raises `MoiraeError`."""
    gateway = StreamRenameGateway(connection)
    started = {rename.old for rename in gateway.list_pending()}
    for name, declared in settings.streams.items():
        if declared.was is None or declared.was in started or not gateway.is_known(declared.was):
            continue
        if gateway.has_units(name) or _has_files(root, name):
            raise ProblemsError([_describe_conflict(settings, name, declared.was)])
        gateway.start(StreamRename(declared.was, name))
    for rename in gateway.list_pending():
        _move_folders(settings, root, rename)
        with connection.transaction():
            gateway.finish(rename)
        _LOG.info("stream renamed", action="stream_renamed", stream=rename.new, was=rename.old)


def _describe_conflict(settings: Settings, name: str, previous: str) -> Problem:
    message = (
        f"{previous!r} cannot be renamed: {name!r} has archived rows, too; remove `was`, and both "
        "keep their history"
    )
    return locate(settings, ("streams", name, "was"), message)


def _has_files(root: StorageRoot, stream: str) -> bool:
    """Whether the table of a stream has, or had, files with rows."""
    return any(name.endswith(".parquet") for name in _table(root, stream).list_files())


def _table(root: StorageRoot, stream: str) -> Storage:
    return as_storage(root) / "streams" / stream


def _move_folders(settings: Settings, root: StorageRoot, rename: StreamRename) -> None:
    """Move the table, and the batches that wait in the landing folder."""
    # The target may be an empty table, which another process has created.
    _table(root, rename.old).replace(_table(root, rename.new))
    landings = Landings.of(settings)
    landings.open(rename.old).move_to(landings.open(rename.new))
