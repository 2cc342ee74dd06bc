"""Accepted batches of rows that are not archived yet, durable in a folder or in object storage.

The server and `moirae ingest` write batches, the live process archives and removes them. The writer
names a batch; a batch written again under the same name is archived once.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Union

if TYPE_CHECKING:
    from archiver.storage import ObjectPath  # loads libraries that the command line does without

BatchPath = Union[Path, "ObjectPath"]


@dataclass(frozen=True)
class LandedBatch:
    """A batch to be archived; `modified` is in microseconds since the epoch, `size` in bytes."""

    name: str
    path: BatchPath
    modified: int
    size: int

    @property
    def suffix(self) -> str:
        """Of the format and the compression, such as `.csv.gz`."""
        return f".{self.path.name.partition('.')[2]}"


class Landing(ABC):
    """The batches of one stream."""

    stream: str

    @abstractmethod
    def open_batch(
        self, name: str, suffix: str, modified: int | None = None
    ) -> AbstractContextManager[BinaryIO]:
        """Open a file for a batch, which is durable and visible once the block ends.

        `suffix` names the format, such as `.jsonl` or `.csv.gz`. `modified`: its place in the
        order, in microseconds since the epoch; None: now. If the block raises, nothing remains.
        """

    def write_batch(self, name: str, suffix: str, content: bytes) -> None:
        """Write a batch atomically and durably. Raises `OSError`."""
        with self.open_batch(name, suffix) as file:
            file.write(content)

    @abstractmethod
    def has_batch(self, name: str, suffix: str) -> bool:
        """Whether the batch is still to be archived."""

    @abstractmethod
    def pending_batches(self) -> list[LandedBatch]:
        """Batches in the order in which they were written, then of their names."""

    @abstractmethod
    def remove(self, path: BatchPath) -> None:
        """Delete a batch if it exists."""

    @abstractmethod
    def remove_unfinished(self, prefix: str) -> None:
        """Delete the incomplete files of crashed writers, for batch names with this prefix."""

    @abstractmethod
    def move_to(self, target: "Landing") -> None:
        """Move all batches to another stream."""
