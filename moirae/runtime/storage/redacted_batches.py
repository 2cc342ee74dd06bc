"""Batches as they may be written to the landing folder."""

import gzip
import io
import zlib

from archiver.formats import Format, landed_format, strip_compression
from moirae.config import Stream

_MAX_CONTENT = 256 << 20  # bytes of a decompressed file, which is redacted in memory


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
    """The content of a file by its suffix. Raises `OSError`, also if there is too much of it."""
    decompressed = content
    try:
        if suffix.endswith(".gz"):
            with gzip.open(io.BytesIO(content)) as file:
                decompressed = file.read(_MAX_CONTENT + 1)
    except (EOFError, zlib.error) as error:
        raise OSError("the gzip data is damaged") from error
    if suffix.endswith(".zst"):
        import pyarrow as pa  # the command line starts without it

        with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
            decompressed = stream.read(_MAX_CONTENT + 1)
    if len(decompressed) > _MAX_CONTENT:
        raise OSError(f"more than {_MAX_CONTENT >> 20} MiB without compression: split the file")
    return decompressed
