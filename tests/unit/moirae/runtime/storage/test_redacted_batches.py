import gzip

import pyarrow as pa
import pytest

from archiver.formats import JSONL
from moirae.config import Stream
from moirae.runtime.storage import redact_batch, redact_file, redacted_batches


def declare(redact: list[dict[str, str]]) -> Stream:
    return Stream.model_validate(
        {
            "columns": {"ts": "timestamp", "note": "string"},
            "time": "ts",
            "redact": redact,
            "source": {"http": True},
        }
    )


REDACTED = declare([{"column": "note", "pattern": r"key-\w+", "with": "***"}])
ROW = b'{"ts":"2026-01-01T00:00:00Z","note":"a key-1"}\n'


def test_batches_are_redacted_where_a_stream_says_so() -> None:
    assert redact_batch("s", declare([]), JSONL, ROW) == ROW
    assert redact_batch("s", REDACTED, JSONL, ROW) == ROW.replace(b"key-1", b"***")


def test_files_are_written_without_compression() -> None:
    content, suffix = redact_file("s", REDACTED, ".jsonl.gz", gzip.compress(ROW))
    assert (content, suffix) == (ROW.replace(b"key-1", b"***"), ".jsonl")


def test_damaged_files_are_refused() -> None:
    with pytest.raises(OSError, match="the gzip data is damaged"):
        redact_file("s", REDACTED, ".jsonl.gz", gzip.compress(ROW)[:-4])


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst"])
def test_files_are_not_decompressed_beyond_a_limit(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redacted_batches, "_MAX_CONTENT", len(ROW))
    compress = gzip.compress if suffix == ".jsonl.gz" else pa.Codec("zstd").compress
    assert redact_file("s", REDACTED, suffix, bytes(compress(ROW)))[1] == ".jsonl"
    with pytest.raises(OSError, match="MiB without compression: split the file"):
        redact_file("s", REDACTED, suffix, bytes(compress(ROW + b"\n")))
