"""Copies of files whose content is hashed on the way."""

import errno
import io
import os
import stat
from hashlib import sha256
from io import BufferedIOBase
from typing import Any, BinaryIO, cast

from moirae.backup.manifest import FileEntry

_BLOCK_SIZE = (
    1 << 18
)  # bytes: what is read is hashed and written while the processor's cache has it


class HashedFile(io.RawIOBase):
    """Hashes and counts what is read from a file, or written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = sha256()
        self._bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Read and hash."""
        content = self._file.read(size)
        self._count(content)
        return content

    def readinto(self, buffer: Any) -> int:
        """Read and hash."""
        count = cast(BufferedIOBase, self._file).readinto(buffer)
        self._count(memoryview(buffer)[:count])
        return count

    def write(self, content: Any) -> int:
        """Hash and write."""
        self._count(content)
        self._file.write(content)
        return len(content)

    def _count(self, content: Any) -> None:
        self._hash.update(content)
        self._bytes += len(content)

    @property
    def entry(self) -> FileEntry:
        """Of all that was read or written."""
        return FileEntry(self._bytes, self._hash.hexdigest())


def copy_hashed(source: BinaryIO, target: BinaryIO) -> FileEntry:
    """Copy a file to its end. Between two files of the disk the kernel copies what was read, which
    takes half the time of writing it.
    """
    hashed = HashedFile(source)
    buffer = memoryview(
        bytearray(_BLOCK_SIZE)
    )  # one, so that no memory is allocated for each block
    by_kernel = _is_disk_file(source) and isinstance(target, io.BufferedWriter)
    position = source.tell() if by_kernel else 0
    while count := hashed.readinto(buffer):
        by_kernel = by_kernel and _send(source, target, position, count)
        if not by_kernel:
            target.write(buffer[:count])
        position += count
    return hashed.entry


def _is_disk_file(file: BinaryIO) -> bool:
    """Others are pipes and downloads."""
    try:
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except io.UnsupportedOperation:
        return False
    return is_regular and isinstance(file, io.BufferedReader)


def _send(source: BinaryIO, target: BinaryIO, position: int, count: int) -> bool:
    """Append a part of a file to another; False: this file system cannot, and nothing was written."""
    target.flush()
    end = position + count
    while position < end:
        try:
            position += os.sendfile(target.fileno(), source.fileno(), position, end - position)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOSYS) and position == end - count:
                return False
            raise
    return True
