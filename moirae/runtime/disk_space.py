"""Free space on the file systems that a workspace writes to."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moirae.config import Settings, is_url

# Bytes that must stay free. With less, the server takes no rows and `moirae status` reports a
# problem.
RESERVE = 512 << 20

_MIB = 1 << 20


@dataclass(frozen=True)
class DiskSpace:
    """One file system. `holds`: what of the workspace lies on it; `path`: the first of these
    folders.
    """

    path: str
    holds: Sequence[str]
    free_bytes: int
    reserve_bytes: int

    @property
    def full(self) -> bool:
        """Whether less than the reserve is free."""
        return self.free_bytes < self.reserve_bytes

    def to_json(self) -> dict[str, Any]:
        """As `moirae status -o json` shows it."""
        return {**asdict(self), "full": self.full}

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "DiskSpace":
        """From what `to_json` gives."""
        return cls(shown["path"], shown["holds"], shown["free_bytes"], shown["reserve_bytes"])


def measure_disk_space(settings: Settings, reserve: int = RESERVE) -> list[DiskSpace]:
    """The file systems of the workspace's home, of its archive where that is a local folder, and of
    its landing folder.

    A folder that does not exist yet counts where it would be made. One that cannot be looked at is
    left out.
    """
    folders_by_device: dict[int, list[tuple[str, Path]]] = {}
    for name, folder in _folders(settings):
        existing = _existing(folder)
        try:
            device = os.stat(existing).st_dev
        except OSError:
            continue
        folders_by_device.setdefault(device, []).append((name, existing))
    disks = []
    for folders in folders_by_device.values():
        path = folders[0][1]
        names = [name for name, _ in folders]
        disks.append(DiskSpace(str(path), names, shutil.disk_usage(path).free, reserve))
    return disks


def describe_disk_problem(disk: DiskSpace) -> str:
    """What is wrong with a full file system, and what to do."""
    free, reserve = disk.free_bytes // _MIB, disk.reserve_bytes // _MIB
    return (
        f"disk space is low: {free:,} MiB free at {disk.path} ({', '.join(disk.holds)}), at least "
        f"{reserve:,} MiB are "
        "needed, and with less posted rows are refused: free some space, or move `home` or "
        "`archive` to another disk"
    )


def _folders(settings: Settings) -> Iterator[tuple[str, Path]]:
    home = Path(settings.home)
    yield "home", home
    if not is_url(settings.archive):
        yield "archive", Path(settings.archive)
    yield "landing folder", home / "landing"


def _existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder
