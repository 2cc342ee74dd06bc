"""Real programs that send logs and metrics. `make peers` fetches or builds them."""

import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".peers"
_FOLDERS = ("usr/bin", "usr/sbin")


def find_program(name: str) -> str | None:
    """The path of `rsyslogd`, `otelcol`, `telegraf` or `lokiclient`; None: it is not there."""
    for folder in _FOLDERS:
        fetched = FOLDER / folder / name
        if fetched.exists():
            return str(fetched)
    return shutil.which(name)


def find_libraries() -> Path | None:
    """The folder with the libraries of a fetched program; None: the system has them."""
    folders = list(FOLDER.glob("usr/lib/*-linux-gnu*"))
    return folders[0] if folders else None
