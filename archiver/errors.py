"""What can go wrong in the archive.

ArchiverError
├── LogDamaged      a commit of a table cannot be read
├── NotInstalled    Spark's jars are missing
└── StorageFailed   the object storage does not do what it is asked
"""


class ArchiverError(Exception):
    """An error of the archive; the message is for the user."""


class NotInstalled(ArchiverError):
    """Set-up has not run, or not to its end."""


class LogDamaged(ArchiverError):
    """A commit of a table cannot be read: what it says is not guessed."""


class StorageFailed(ArchiverError):
    """Object storage cannot be reached, or refuses: the message names the archive and the reason."""
