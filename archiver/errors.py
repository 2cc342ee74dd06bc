"""Exceptions of the archive.

ArchiverError
├── CommitConflict       another process committed first
├── DataFileDamaged      a data file of a Delta table cannot be read
├── GenerationReplaced   a table was restored from a backup since it was opened
├── HistoryUnavailable   the time at which rows were archived is unknown
├── InvalidValue         a line or value cannot be decoded
├── IncompatibleColumn   a column of a file cannot be converted to its declared type
├── IncompatibleDeclaration  a stream is declared such that its table cannot follow
├── IncompatibleTable    another program changed a Delta table such that it cannot be read
├── LogDamaged           a commit of a Delta table cannot be parsed, or is gone
├── NotArchivable        a column has a type that the archive does not support
├── NotInstalled         Spark's jars are missing
├── RowsLost             rewritten rows are not those that were read
├── SourceDamaged        a source unit cannot be read to its end
├── SourceUnreachable    a source file is not permitted or its disk fails; worth trying again
├── StorageFailed        object storage cannot be reached or refuses a request
├── TaskLost             the process of a task on an executor has died
└── ValueLost            an archived value would not be the same in the declared type
"""


class ArchiverError(Exception):
    """An error of the archive; the message is written for the user."""


class NotInstalled(ArchiverError):
    """Set-up has not run, or was not completed."""


class LogDamaged(ArchiverError):
    """A commit of a Delta table cannot be parsed."""


class DataFileDamaged(ArchiverError):
    """A data file of a Delta table is missing or cannot be read. Names the file."""


class IncompatibleTable(ArchiverError):
    """Another program changed a Delta table such that it cannot be read. Names table and version."""


class IncompatibleDeclaration(ArchiverError):
    """A stream is declared such that its table cannot follow, or has not followed yet."""


class StorageFailed(ArchiverError):
    """Object storage cannot be reached or refuses a request. The message names the archive."""


class CommitConflict(ArchiverError):
    """Another process has changed what a commit was to replace or to continue."""


class GenerationReplaced(ArchiverError):
    """A table was restored from a backup since this process opened it: it must not write."""


class RowsLost(ArchiverError):
    """Rows of rewritten files are not those that were read; nothing was committed."""


class SourceDamaged(ArchiverError):
    """A source unit cannot be read to its end. Rows read before are archived."""


class SourceUnreachable(ArchiverError):
    """A source file is not permitted or its disk fails. It may be read later; the message names it."""


class RegistryUnavailable(SourceUnreachable):
    """A schema registry does not answer."""


class IncompatibleColumn(ArchiverError):
    """The type of a column of a file cannot be converted to the declared type of any row."""


class ValueLost(ArchiverError):
    """An archived value would not be the same in the declared type. Names value and chunk."""


class HistoryUnavailable(ArchiverError):
    """Another program rewrote rows, so the time at which they were archived is unknown."""


class TaskLost(ArchiverError):
    """The process of a task on an executor has died, also when the task was repeated."""

    def __init__(self) -> None:
        super().__init__("the process of a task died, perhaps out of memory")


class NotArchivable(ArchiverError, ValueError):
    """A column has a type that the archive does not support."""


class InvalidValue(ArchiverError, ValueError):
    """A line or value that cannot be decoded."""
