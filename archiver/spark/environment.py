"""The software that tasks need: executors on other machines must have the driver's.

The driver passes a description of its own to the executors. Those with another refuse tasks: their
answers could differ, or functions that a task names could be missing.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from archiver.task_environment import DRIVER_ENVIRONMENT

MISMATCH = "executor refused"
"""How the error of a task that was refused begins."""
# Packages whose code tasks run, and libraries whose version may change an answer.
_CODE = ("archiver", "recall")
_LIBRARIES = ("pyspark", "pyarrow", "duckdb", "numpy", "obstore")


@cache
def describe_environment() -> Mapping[str, str]:
    """The versions of Python, of libraries and of Moirae's code for tasks, by name."""
    versions = {"python": ".".join(map(str, sys.version_info[:2]))}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "missing"
    versions["moirae"] = _digest_code()
    return versions


def compare_environments(driver: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """What differs on an executor, such as `pyarrow 24.0.0 instead of 25.0.0`."""
    return [
        f"{name} {own.get(name, 'missing')} instead of {expected}"
        for name, expected in driver.items()
        if own.get(name) != expected
    ]


def find_mismatch(environ: Mapping[str, str] = os.environ) -> str | None:
    """Why this process must not run tasks of the driver that its environment names, or None."""
    text = environ.get(DRIVER_ENVIRONMENT)
    if text is None:
        return None
    differences = compare_environments(json.loads(text), describe_environment())
    if not differences:
        return None
    return (
        f"{MISMATCH} on {os.uname().nodename}: {', '.join(differences)}: install the driver's "
        "version of Moirae in the Python of the executors (spark.pyspark.python)"
    )


def _digest_code() -> str:
    """A short hash of the modules of the packages: a version number may have several states."""
    digest = hashlib.sha256()
    for name in _CODE:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder)}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
