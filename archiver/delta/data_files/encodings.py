"""How the columns of a clustered file are encoded: by trial, for each column of each file.

Of the encodings of Parquet only those are tried that Spark, DuckDB, delta-rs and pandas read: Spark
reads no BYTE_STREAM_SPLIT.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Rows, in the order of the file, on which encodings are tried.
_SAMPLE_ROWS = 65_536
# Of zstd. Higher ones take several times as long and save 1 % more.
_COMPRESSION_LEVEL = 9
_MAX_DICTIONARY_BYTES = 4 << 20  # of a column in a row group; with more it is stored plain
_DICTIONARY = "dictionary"


@dataclass
class Encodings:
    """`dictionary`: the columns with one; `others`: the encodings of the others that are not plain."""

    dictionary: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)


def choose_encodings(rows: pa.Table) -> Encodings:
    """The encoding of each column that takes the fewest bytes, compressed."""
    chosen = Encodings()
    sample = rows.slice(0, _SAMPLE_ROWS)
    for column in rows.schema:
        candidates = _candidates(column.type)
        encoding = candidates[0]
        if len(candidates) > 1 and sample[column.name].null_count < len(sample):
            sizes = _measure(sample.select([column.name]), candidates)
            encoding = min(sizes, key=sizes.__getitem__)
        if encoding == _DICTIONARY:
            chosen.dictionary.append(column.name)
        elif encoding != "PLAIN":
            chosen.others[column.name] = encoding
    return chosen


def _candidates(arrow_type: pa.DataType) -> Sequence[str]:
    if pa.types.is_boolean(arrow_type):
        return ("PLAIN",)
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return (_DICTIONARY, "DELTA_BYTE_ARRAY", "PLAIN")
    if pa.types.is_floating(arrow_type):
        return (_DICTIONARY, "PLAIN")
    return (_DICTIONARY, "DELTA_BINARY_PACKED", "PLAIN")


def _measure(part: pa.Table, candidates: Sequence[str]) -> dict[str, int]:
    """Bytes of one column by encoding."""
    sizes: dict[str, int] = {}
    (name,) = part.column_names
    for encoding in candidates:
        encodings = (
            Encodings([name]) if encoding == _DICTIONARY else Encodings([], {name: encoding})
        )
        sink = pa.BufferOutputStream()
        options = compression_options(encodings)
        pq.write_table(part, sink, **options, write_statistics=False, store_schema=False)
        sizes[encoding] = int(sink.tell())
    return sizes


def compression_options(
    encodings: Encodings, level: int | None = _COMPRESSION_LEVEL
) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter`. `level`: of zstd; None: a fast one."""
    return {
        "compression": "zstd",
        "compression_level": level,
        "use_dictionary": encodings.dictionary or False,
        "column_encoding": encodings.others,
        "dictionary_pagesize_limit": _MAX_DICTIONARY_BYTES,
    }
