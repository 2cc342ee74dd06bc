"""The tar file of a backup: logs of tables, accepted batches, and the files of the workspace."""

import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from archiver.delta import TableVersion
from moirae.config import RelationFile, Settings
from moirae.errors import BackupDamaged

# Folders in the tar file.
LOG_FOLDER = "log"
LANDING_FOLDER = "landing"
WORKSPACE_FOLDER = "workspace"
# Files of the workspace outside its folder, by absolute path.
ELSEWHERE_FOLDER = "elsewhere"


def list_workspace_files(settings: Settings) -> list[Path]:
    """The workspace file, the rule files and the files of relations that exist."""
    paths = [settings.file, *settings.find_rule_files()]
    for relation in settings.relations.values():
        if isinstance(relation.source, RelationFile) and not relation.source.is_in_object_storage:
            paths.append(Path(relation.source.file))
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def write_tar(
    target: BinaryIO,
    settings: Settings,
    tables: Sequence[TableVersion],
    batches: Sequence[tuple[str, Path]],
) -> None:
    """Write the tar file."""
    root = settings.file.parent
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in list_workspace_files(settings):
            name = f"{ELSEWHERE_FOLDER}{path.absolute()}"
            if path.absolute().is_relative_to(root):
                name = f"{WORKSPACE_FOLDER}/{path.absolute().relative_to(root)}"
            _add_file(tar, name, path)
        for stream, path in batches:
            _add_file(tar, f"{LANDING_FOLDER}/{stream}/{path.name}", path)
        for table in tables:
            for log_path, content in table.log_files.items():
                info = tarfile.TarInfo(f"{LOG_FOLDER}/{table.table.name}/{log_path}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        info = tarfile.TarInfo(name)
        info.size = status.st_size
        info.mtime = status.st_mtime
        info.mode = status.st_mode & 0o777
        tar.addfile(info, file)


def read_tar(source: BinaryIO, folder: str) -> Iterator[tuple[str, tarfile.TarInfo, BinaryIO]]:
    """The files in a folder of the tar file: name in the folder, attributes, content."""
    prefix = f"{folder}/"
    source.seek(0)
    with tarfile.open(fileobj=source, mode="r") as tar:
        for info in tar:
            if info.isfile() and info.name.startswith(prefix):
                if ".." in info.name.split("/"):
                    raise BackupDamaged(f"{info.name}: a name outside of the backup")
                content = tar.extractfile(info)
                assert content is not None
                yield info.name.removeprefix(prefix), info, cast(BinaryIO, content)
