"""Free space on the file systems that a workspace writes to."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moirae.config import Settings

# Bytes that must stay free. Below it the server refuses rows and `moirae status` reports a problem.
DISK_RESERVE = 512 << 20

_MIB = 1 << 20  # bytes


@dataclass(frozen=True)
class DiskSpace:
    """One file system that a workspace uses.

    `holds`: the parts of the workspace on it; `path`: the folder of the first of them.
    """

    path: str
    holds: Sequence[str]
    free_bytes: int
    reserve_bytes: int

    @property
    def full(self) -> bool:
        """Whether fewer bytes than the reserve are free."""
        return self.free_bytes < self.reserve_bytes

    def describe_problem(self) -> str:
        """The message of `moirae status` if the file system is full."""
        free = self.free_bytes // _MIB
        reserve = self.reserve_bytes // _MIB
        parts = ", ".join(self.holds)
        return (
            f"disk space is low: {free:,} MiB free at {self.path} ({parts}), "
            f"at least {reserve:,} MiB are needed; posted rows are refused: "
            "free some space, or move `home` or `archive` to another disk"
        )

    def to_json(self) -> dict[str, Any]:
        """The form of `moirae status -o json`."""
        return {**asdict(self), "full": self.full}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "DiskSpace":
        """Reverse `to_json`."""
        return cls(
            path=document["path"],
            holds=document["holds"],
            free_bytes=document["free_bytes"],
            reserve_bytes=document["reserve_bytes"],
        )


def measure_disk_space(settings: Settings, reserve: int = DISK_RESERVE) -> list[DiskSpace]:
    """The file systems of the home, of a local archive and of the landing folder, each once.

    For a folder that does not exist yet, its nearest existing parent counts. Folders without access
    are left out.
    """
    folders_by_device: dict[int, list[tuple[str, Path]]] = {}
    for name, folder in _folders(settings):
        existing = _nearest_existing(folder)
        try:
            device = os.stat(existing).st_dev
        except OSError:
            continue
        folders_by_device.setdefault(device, []).append((name, existing))
    disks = []
    for folders in folders_by_device.values():
        path = folders[0][1]
        names = [name for name, _ in folders]
        free = shutil.disk_usage(path).free
        disks.append(DiskSpace(str(path), names, free_bytes=free, reserve_bytes=reserve))
    return disks


def _folders(settings: Settings) -> Iterator[tuple[str, Path]]:
    home = Path(settings.home)
    yield "home", home
    if settings.local_archive is not None:
        yield "archive", settings.local_archive
    yield "landing folder", home / "landing"


def _nearest_existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder
