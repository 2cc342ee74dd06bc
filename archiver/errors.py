"""What can go wrong in the archive.

ArchiverError
└── NotInstalled    Spark's jars are missing
"""


class ArchiverError(Exception):
    """An error of the archive; the message is for the user."""


class NotInstalled(ArchiverError):
    """Set-up has not run, or not to its end."""
