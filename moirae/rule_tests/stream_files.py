"""Files with rows of a stream, read as its source reads them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.formats import Format, infer_format_name
from archiver.ingest import read_file_batches
from archiver.times import Micros
from moirae.errors import Problem


class StreamFileRows(NamedTuple):
    """A part of the rows of a file, and the first of its lines that is refused."""

    rows: pa.Table
    problem: Problem | None


def read_stream_file(
    schema: StreamSchema, source_format: Format, file: Path, now: Micros
) -> Iterator[StreamFileRows]:
    """`source_format`: of the source of the stream; the name of the file may say another one."""
    record_format = source_format
    try:
        name = infer_format_name(file.name)
        record_format = source_format if name == source_format.name else Format(name)
    except ValueError:
        pass  # as of the source
    for batch in read_file_batches(schema, file, record_format, now):
        refused = next(iter(batch.rows.refused_lines), None)
        problem = None
        if refused is not None:
            problem = Problem(str(file), refused.line, None, refused.detail)
        yield StreamFileRows(batch.rows.table, problem)
