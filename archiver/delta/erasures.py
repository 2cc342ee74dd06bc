"""Rows that other programs have deleted from a table, as by DELETE: a repair must not bring them back.

The log knows such a commit as long as `archive_history`, and the files that it has replaced exist
as long.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from archiver.delta.data_files import TableFiles
from archiver.delta.protocol import ParsedCommit, parse_commit
from archiver.errors import DataFileDamaged
from archiver.storage import LOG_FOLDER


@dataclass(frozen=True)
class Erasures:
    """`commits`: what has deleted rows, in words. `ids`: identities of deleted rows;
    `rows_by_unit`: their number by ledger id. `unknown_chunks`: where rows were deleted that cannot
    be told any more, since files are gone.
    """

    commits: Sequence[str]
    ids: frozenset[bytes]
    rows_by_unit: Mapping[int, int]
    unknown_chunks: frozenset[int]


def find_erasures(files: TableFiles) -> Erasures:
    """What the log of a stream's table says of rows that other programs have deleted.

    Raises `OSError`, and `ValueError` for a corrupt commit.
    """
    commits: list[str] = []
    units: dict[bytes, int] = {}
    unknown: set[int] = set()
    for version, commit in _foreign_commits(files):
        commits.append(f"{commit.author}, version {version:,}")
        try:
            remaining = set(_read_rows(files, (file.path for file in commit.added)))
            removed = _read_rows(files, commit.removed)
        except DataFileDamaged:
            unknown.update(
                int(path.split("/", 1)[0].removeprefix("chunk=")) for path in commit.removed
            )
            continue
        units.update((row_id, unit) for row_id, unit in removed.items() if row_id not in remaining)
    return Erasures(commits, frozenset(units), Counter(units.values()), frozenset(unknown))


def _foreign_commits(files: TableFiles) -> Iterator[tuple[int, ParsedCommit]]:
    """Commits of other programs that remove rows, by version."""
    for name in sorted((files.storage / LOG_FOLDER).list_sizes()):
        if name.endswith(".json"):
            content = files.storage.read_log_file(f"{LOG_FOLDER}/{name}")
            commit = parse_commit(content, files.schema.time, None)
            if commit.generation is None and commit.removed and commit.changes_data:
                yield int(name.removesuffix(".json")), commit


def _read_rows(files: TableFiles, paths: Iterable[str]) -> dict[bytes, int]:
    """The source units of rows by identity, without rows of other programs."""
    units: dict[bytes, int] = {}
    for path in paths:
        rows: pa.Table = files.read_checked(path, ["_id", "_unit"])
        pairs = zip(rows["_id"].to_pylist(), rows["_unit"].to_pylist(), strict=True)
        units.update((row_id, unit) for row_id, unit in pairs if unit is not None)
    return units
