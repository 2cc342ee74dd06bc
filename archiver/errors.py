"""What can go wrong in the archive.

ArchiverError
├── LogDamaged      a commit of a table cannot be read
├── NotArchivable   a column is of a type that the archive does not keep
├── NotInstalled    Spark's jars are missing
├── NotTold         it is not known when rows came
├── SourceDamaged   a source unit cannot be read to its end
├── StorageFailed   the object storage does not do what it is asked
├── Superseded      a commit came too late
└── Unfit           a column of a file is of another type than declared
"""


class ArchiverError(Exception):
    """An error of the archive; the message is for the user."""


class NotInstalled(ArchiverError):
    """Set-up has not run, or not to its end."""


class LogDamaged(ArchiverError):
    """A commit of a table cannot be read: what it says is not guessed."""


class StorageFailed(ArchiverError):
    """Object storage cannot be reached, or refuses: the message names the archive and the reason."""


class CommitConflict(ArchiverError):
    """What a commit was to replace, or to go on from, has been replaced by another."""


class SourceDamaged(ArchiverError):
    """A unit cannot be read to its end; what was read before stays."""


class IncompatibleColumn(ArchiverError):
    """A column of the table is of a type that its declaration cannot take: no row of it fits."""


class HistoryUnavailable(ArchiverError):
    """Another program has rewritten rows: when they came is not known any more."""


class NotArchivable(ArchiverError, ValueError):
    """A column of a type that the archive does not keep."""
