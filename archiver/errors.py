"""Exceptions of the archive.

ArchiverError
├── LogDamaged      a commit of a Delta table cannot be parsed
├── NotInstalled    Spark's jars are missing
└── StorageFailed   object storage cannot be reached or refuses a request
"""


class ArchiverError(Exception):
    """Base class. The message is written for the user."""


class NotInstalled(ArchiverError):
    """`make setup` was not run, or did not complete."""


class LogDamaged(ArchiverError):
    """A commit of a Delta table cannot be parsed. The message names the file."""


class StorageFailed(ArchiverError):
    """Object storage cannot be reached or refuses a request. The message names the archive."""
