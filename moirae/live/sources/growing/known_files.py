"""Which of the listed files are which of those that were read before. No I/O of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sql.archive import GrowingFileRow


@dataclass(frozen=True)
class ListedFile:
    """A file that is present. `size`: of its content; `changed`: when, in nanoseconds."""

    path: Path
    device: int
    inode: int
    size: int
    changed: int
    is_compressed: bool = False


@dataclass(frozen=True)
class KnownFile:
    """A file that was read up to an offset. `row`: by what it is found again."""

    row: GrowingFileRow
    read_to: int

    def may_be(self, file: ListedFile) -> bool:
        """Whether a listed file is as long as it was read."""
        return file.size >= max(self.read_to, self.row.head_length, self.row.checked_to)


@dataclass(frozen=True)
class MatchedFiles:
    """`files`: the known ones by position among the listed files. `ambiguous`: listed files that begin like a
    file that is present, too: copies, until that file is truncated.
    """

    files: dict[int, KnownFile]
    ambiguous: frozenset[int]


def match_files(
    known_files: Sequence[KnownFile],
    listed: Sequence[ListedFile],
    has_content: Callable[[ListedFile, KnownFile], bool],
    is_beginning: Callable[[ListedFile, ListedFile], bool] = lambda _file, _longer: False,
) -> MatchedFiles:
    """Find the listed files among those that were read.

    A file is known by device and inode, else by its content: its beginning, and what was read last.
    `has_content`: whether a listed file has that of a known one, which is not longer;
    `is_beginning`: whether it is how a longer one begins, as of a copy that is not complete yet.
    """
    by_inode = {(int(k.row.device), int(k.row.inode)): k for k in known_files}
    matched: dict[int, KnownFile] = {}
    for position, file in enumerate(listed):
        candidate = by_inode.get((file.device, file.inode))
        if candidate is None or file.is_compressed or not candidate.may_be(file):
            continue
        if has_content(file, candidate):
            matched[position] = candidate
    present = {file.row.number for file in matched.values()}
    ambiguous: set[int] = set()
    # The longest first: a file that was copied on while it grew continues the copy.
    candidates = sorted(known_files, key=lambda k: (k.read_to, k.row.number), reverse=True)
    for position, file in enumerate(listed):
        if position in matched:
            continue
        for candidate in candidates:
            if not candidate.may_be(file) or not has_content(file, candidate):
                continue
            if candidate.row.number not in present:
                matched[position] = candidate
                present.add(candidate.row.number)
            else:
                ambiguous.add(position)
            break
    for position, file in enumerate(listed):
        if position in matched or position in ambiguous or file.is_compressed:
            continue
        longer = [listed[other] for other in matched if listed[other].size > file.size]
        if any(is_beginning(file, other) for other in longer):
            ambiguous.add(position)
    return MatchedFiles(matched, frozenset(ambiguous))
