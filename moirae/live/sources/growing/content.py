"""Content of growing files: their bytes and their ranges."""

import errno
import os
from pathlib import Path
from typing import IO

import re2

from archiver.formats import COMPRESSION_SUFFIXES, Format
from archiver.ingest import MAX_LINE_BYTES, find_joined_end, open_content

_BLOCK_BYTES = 1 << 20


def is_compressed(path: Path) -> bool:
    """Whether the content of a file is other than its bytes; such a file does not grow."""
    return path.suffix in COMPRESSION_SUFFIXES


def measure_content(path: Path) -> int:
    """The size of a file's content in bytes. Raises `OSError`, `EOFError` if it is not whole."""
    if not is_compressed(path):
        return os.stat(path).st_size
    size = 0
    with open_content(path) as file:
        while block := file.read(_BLOCK_BYTES):
            size += len(block)
    return size


def read_range(path: Path, start: int, size: int) -> bytes:
    """Up to `size` bytes of the content from an offset on. Raises `OSError`, `EOFError`."""
    with open_content(path) as file:
        if is_compressed(path):
            _skip(file, start)
        else:
            file.seek(start)
        return file.read(size)


def read_whole_range(path: Path, start: int, size: int) -> bytes:
    """The same, with `EOFError` if the content ends earlier."""
    content = read_range(path, start, size)
    if len(content) < size:
        raise EOFError(f"{path} ends before byte {start + size}")
    return content


def find_text_start(path: Path, start: int) -> int | None:
    """The offset of the first byte from an offset on that is not NUL; None: there is none.

    Holes of a sparse file are not read. Raises `OSError`, `EOFError`.
    """
    with open_content(path) as file:
        if is_compressed(path):
            _skip(file, start)
        else:
            try:
                start = os.lseek(file.fileno(), start, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole
                    return None
                raise
            file.seek(start)
        while block := file.read(_BLOCK_BYTES):
            text = block.lstrip(b"\0")
            if text:
                return start + len(block) - len(text)
            start += len(block)
    return None


def _skip(file: IO[bytes], size: int) -> None:
    while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
        size -= len(block)


def find_complete_end(content: bytes, record_format: Format, *, is_settled: bool) -> int:
    """How many of the bytes are complete records; the rest waits for more.

    `content`: begins with a record, which ends where NUL bytes follow a line. `is_settled`: the
    file was not written for a while: what may continue a record will not come, except for the end
    of a line.
    """
    nul_start = content.find(b"\n\0") + 1
    if nul_start:
        is_settled = is_settled or bool(content[nul_start:].strip(b"\0"))
        content = content[:nul_start]
    end = content.rfind(b"\n") + 1
    if not end:
        # A line past the limit of records is refused, whatever follows.
        return len(content) if len(content) > 2 * MAX_LINE_BYTES else 0
    if is_settled or end > 2 * MAX_LINE_BYTES:
        return end
    if record_format.starts_with is not None:
        return _find_last_start(content[:end], record_format.starts_with)
    if record_format.is_csv and record_format.csv.quote is not None:
        return _find_even_quotes(content[:end], record_format.csv.quote.encode())
    if record_format.name in ("cri", "docker"):
        return find_joined_end(content[:end], record_format.name)
    return end


def _find_last_start(lines: bytes, starts_with: str) -> int:
    """Where the last record begins: lines may be added to it."""
    is_start = re2.compile(f"^(?:{starts_with})".encode()).match
    end = len(lines)
    while end > 0:
        start = lines.rfind(b"\n", 0, end - 1) + 1
        if is_start(lines[start:end]) is not None:
            return start
        end = start
    return 0


def _find_even_quotes(lines: bytes, quote: bytes) -> int:
    """The last line end outside of quotes."""
    end = len(lines)
    quotes = lines.count(quote)
    while end > 0 and quotes % 2:
        start = lines.rfind(b"\n", 0, end - 1) + 1
        quotes -= lines.count(quote, start, end)
        end = start
    return end
