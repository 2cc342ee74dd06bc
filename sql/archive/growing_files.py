"""Files that grow: by what they are found again."""

from dataclasses import asdict, dataclass

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class GrowingFileRow:
    """A growing file.

    `name`: when it was first seen; `path`: where it was last seen. `head_hash`: of its first
    `head_length` bytes. `checked_hash`: of the last bytes before the offset `checked_to`.
    """

    number: int
    name: str
    path: str
    device: int
    inode: int
    head_length: int
    head_hash: bytes
    checked_to: int
    checked_hash: bytes


class GrowingFileGateway(Gateway):
    queries = "growing_files"

    def list_all(self, stream: str) -> list[GrowingFileRow]:
        """The growing files that a stream has read, oldest first."""
        return self._records(GrowingFileRow, "list_all", stream=stream)

    def insert(self, stream: str, file: GrowingFileRow) -> int:
        """Store a file that was not seen before. Returns its number; that of `file` is ignored."""
        values = asdict(file)
        del values["number"]
        return int(self._value("insert", stream=stream, **values))

    def update(self, file: GrowingFileRow) -> None:
        """Store where a file was seen, and by what it is found again."""
        values = asdict(file)
        del values["name"]
        self._execute("update", **values)
