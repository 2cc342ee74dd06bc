"""Content of source files as lines or blocks of UTF-8: decompressed, and in any encoding."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from archiver.errors import SourceDamaged
from archiver.ingest.decoding import MAX_LINE_BYTES
from archiver.storage import ObjectPath

_BLOCK_BYTES = 1 << 20
_ZSTD_PIECE_BYTES = 4096  # the piece that damage interrupts is lost
# The longer marks come first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def find_encoding_mark(beginning: bytes) -> str | None:
    """The encoding that the first bytes of a text tell, other than UTF-8; None: none."""
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            return encoding
    return None


@contextmanager
def open_content(path: Path | ObjectPath) -> Iterator[IO[bytes]]:
    """The decompressed content of a `.gz` or `.zst` file; that of another one as it is."""
    with path.open("rb") as file:
        if path.suffix == ".gz":
            with gzip.open(file) as decompressed:
                yield decompressed  # type: ignore[misc]
        elif path.suffix == ".zst":
            with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
                yield stream
        else:
            yield file


def iterate_blocks(file: IO[bytes], encoding: str | None) -> Iterator[bytes]:
    """The content in blocks of UTF-8. Raises `SourceDamaged` where it is not in its encoding."""
    blocks = _read_blocks(file)
    block = next(blocks, b"")
    encoding = find_encoding_mark(block) or encoding
    decoder = (
        None if encoding is None else codecs.getincrementaldecoder(encoding)(_errors(encoding))
    )
    position = 0
    while block:
        if decoder is None:
            yield block
        else:
            try:
                yield decoder.decode(block).encode("utf-8", "surrogateescape")
            except UnicodeDecodeError as error:
                raise SourceDamaged(
                    f"not {encoding} text at byte {position + error.start}"
                ) from error
        position += len(block)
        block = next(blocks, b"")
    if decoder is not None:
        try:
            decoder.decode(b"", True)
        except UnicodeDecodeError as error:
            raise SourceDamaged(f"not {encoding} text: the file ends in a character") from error


def _read_blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The content in blocks; before the damage of a compressed file, what could be decompressed."""
    read = file.read
    piece_bytes = _BLOCK_BYTES
    if isinstance(file, gzip.GzipFile):
        read = file.read1
    elif isinstance(file, pa.NativeFile):
        piece_bytes = _ZSTD_PIECE_BYTES
    block = bytearray()
    try:
        while piece := read(piece_bytes):
            block += piece
            if len(block) >= _BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    except (OSError, EOFError, zlib.error):
        if block:
            yield bytes(block)
        raise
    if block:
        yield bytes(block)


def decode_text(content: bytes, encoding: str | None) -> bytes:
    """Some lines in UTF-8. `encoding`: one in which a line end is one byte."""
    if encoding is None:
        return content
    return content.decode(encoding, "surrogateescape").encode("utf-8", "surrogateescape")


def _errors(encoding: str) -> str:
    """How bytes that an encoding lacks are decoded: their line is then refused, if possible."""
    return "surrogateescape" if len("\n".encode(encoding)) == 1 else "strict"


def split_lines(blocks: Iterator[bytes], line_ends: bytes = b"\r\n") -> Iterator[bytes]:
    """The lines of blocks, without their ends. Of longer ones than the limit, the rest is cut.

    `line_ends`: characters that are no part of a line where they are at its end.
    """
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        lines = block.split(b"\n")
        if len(lines) > 1:
            parts.append(lines[0])
            yield b"".join(parts).rstrip(line_ends)
            for line in lines[1:-1]:
                yield line.rstrip(line_ends)
            parts, size = [], 0
        rest = lines[-1]
        if size <= MAX_LINE_BYTES:
            parts.append(rest[: MAX_LINE_BYTES + 2])
        size += len(rest)
    if size:
        yield b"".join(parts).rstrip(line_ends)
