"""When the data files of the archive were last read and compared with their digests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class FileCheckRow:
    """A data file of a table. `digest`: None: the log of the table has it. `checked_at`: when it was
    read, or first seen. `problem`: None: it was as expected.
    """

    path: str
    digest: str | None
    checked_at: datetime
    problem: str | None


@dataclass(frozen=True, slots=True)
class FileProblemRow:
    """A damaged data file."""

    table_name: str
    path: str
    problem: str
    checked_at: datetime


class FileCheckGateway(Gateway):
    queries = "file_checks"

    def list_of_table(self, table: str) -> list[FileCheckRow]:
        """The files of a table that were seen."""
        return self._records(FileCheckRow, "list_of_table", table=table)

    def list_recorded(self, table: str) -> dict[str, str]:
        """Digests by path of the files whose digest only the database has."""
        return self._pairs("list_recorded", table=table)

    def list_problems(self) -> list[FileProblemRow]:
        """The damaged files."""
        return self._records(FileProblemRow, "list_problems")

    def put(self, table: str, checks: Sequence[tuple[str, str | None, str | None]]) -> None:
        """Store files that were read or seen now: path, digest to record, and problem."""
        rows: list[Mapping[str, str | None]] = [
            {
                "table_name": table,
                "path": path,
                "digest": digest,
                "problem": None if problem is None else replace_nul(problem),
            }
            for path, digest, problem in checks
        ]
        self._execute_rows("put", rows)

    def forget(self, table: str, paths: Collection[str]) -> None:
        """Forget files that are no part of a table any more."""
        if paths:
            self._execute("forget", table=table, paths=list(paths))

    def forget_other_tables(self, tables: Collection[str]) -> None:
        """Forget the files of all tables but some."""
        self._execute("forget_other_tables", tables=list(tables))
