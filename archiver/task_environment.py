"""The environment of tasks on executors of a cluster, whose machines have no file of the driver."""

import os
from collections.abc import Mapping
from pathlib import Path

DRIVER_ENVIRONMENT = "MOIRAE_DRIVER_ENVIRONMENT"
"""The environment variable of executors with the driver's description, as JSON."""
# What a standalone worker, Kubernetes and YARN name the folders of an application, which they remove
# when it has ended.
_FOLDER_VARIABLES = ("SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS", "LOCAL_DIRS")
_SEPARATORS = (os.pathsep, ",")


def find_task_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder for files of tasks; None: this process is no task of another machine."""
    if DRIVER_ENVIRONMENT not in environ:
        return None
    for name in _FOLDER_VARIABLES:
        folders = environ.get(name, "")
        for separator in _SEPARATORS:
            folders = folders.partition(separator)[0]
        if folders:
            return Path(folders)
    return None
