"""Batches as they may be written to the landing folder."""

import gzip
import zlib

import pyarrow as pa

from archiver.formats import Format, landed_format, strip_compression
from moirae.config import Stream


def redact_batch(name: str, stream: Stream, record_format: Format, content: bytes) -> bytes:
    """The decompressed content of a batch for a stream, without its secrets.

    Raises `SourceDamaged`, `ArrowInvalid` for content that is not of the format.
    """
    if not stream.redact:
        return content
    # Loaded here: most streams redact nothing, and the server starts without the archive.
    from archiver.ingest import redact_content
    from moirae.config import stream_schema

    return redact_content(stream_schema(name, stream), record_format, content)


def redact_file(name: str, stream: Stream, suffix: str, content: bytes) -> tuple[bytes, str]:
    """A file for a stream without its secrets and compression, and its suffix then.

    `suffix`: such as `.csv.gz`. Raises `OSError`, `SourceDamaged`, `ArrowInvalid`.
    """
    record_format = landed_format(f"file{suffix}", stream.source.record_format)
    text = _decompress(suffix, content)
    return redact_batch(name, stream, record_format, text), strip_compression(suffix)


def _decompress(suffix: str, content: bytes) -> bytes:
    """The content of a file by its suffix. Raises `OSError`."""
    try:
        if suffix.endswith(".gz"):
            return gzip.decompress(content)
    except (EOFError, zlib.error) as error:
        raise OSError("the gzip data is damaged") from error
    if suffix.endswith(".zst"):
        with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
            decompressed: bytes = stream.read()
            return decompressed
    return content
