"""Decode lines block by block; what Arrow's readers decline is decoded line by line."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from archiver.delta import StreamSchema
from archiver.formats import REGISTERED_NAMES, Format, RecordReading, find_pattern, redact_table
from archiver.ingest.decoding.csv_reader import read_csv_block
from archiver.ingest.decoding.json_reader import read_json_block
from archiver.ingest.decoding.line_decoder import decode_lines
from archiver.ingest.decoding.records import MAX_LINE_BYTES, DecodedRows
from archiver.ingest.decoding.text_block_reader import read_text_block

# Blocks of these sizes are tried one after the other. No line of a block is too long: none is longer
# than the block.
_BLOCK_BYTES = (MAX_LINE_BYTES, MAX_LINE_BYTES // 8)
# The line decoder is as fast for smaller blocks, at the end of the lines.
_MIN_BLOCK_BYTES = 16 << 10
# How much is decoded line by line after a declined block of the smaller size; twice as much after
# each further one, until a block is accepted.
_MIN_LINEWISE_BYTES = _BLOCK_BYTES[-1]
_MAX_LINEWISE_BYTES = 4 << 20

# Returns the rows of the lines; None unless the line decoder would return the same ones.
_BlockReader = Callable[[Sequence[bytes]], pa.Table | None]
# Decodes lines, of which the first has the given number.
_LineDecoder = Callable[[Sequence[bytes], int], DecodedRows]


def decode_blocks(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes], first: int
) -> DecodedRows:
    """Return the rows of `decode_lines`, redacted; several times as fast if most are regular."""
    rows = _decode_blocks(schema, reading, lines, first)
    return replace(rows, table=redact_table(rows.table, schema.redactions))


def _decode_blocks(
    schema: StreamSchema, reading: RecordReading, lines: Sequence[bytes], first: int
) -> DecodedRows:
    read_block = _block_reader(reading.format)
    if read_block is None:
        return decode_lines(schema, reading, lines, first)

    def decode_linewise(some_lines: Sequence[bytes], number: int) -> DecodedRows:
        return decode_lines(schema, reading, some_lines, number)

    decoder = _BlockDecoder(lines, first, partial(read_block, schema, reading), decode_linewise)
    return _concat(decoder.decode())


def _block_reader(
    record_format: Format,
) -> Callable[[StreamSchema, RecordReading, Sequence[bytes]], pa.Table | None] | None:
    """What reads blocks of a format; None: records are read one by one."""
    if find_pattern(record_format) is not None:
        return read_text_block
    if record_format.is_csv:
        return read_csv_block
    one_by_one = ("logfmt", "docker", *REGISTERED_NAMES)
    return None if record_format.name in one_by_one else read_json_block


class _BlockDecoder:
    """Decodes each line once, in order, by one of two functions."""

    def __init__(
        self,
        lines: Sequence[bytes],
        first: int,
        read_block: _BlockReader,
        decode_linewise: _LineDecoder,
    ) -> None:
        self._lines = lines
        self._first = first
        self._read_block = read_block
        self._decode_linewise = decode_linewise
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        # By line: the bytes of all lines before it; and of all lines.
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])
        self._decoded: list[DecodedRows] = []
        self._position = 0
        self._linewise_bytes = _MIN_LINEWISE_BYTES

    def decode(self) -> list[DecodedRows]:
        """Decode all lines."""
        self._decode_until(len(self._lines), _BLOCK_BYTES)
        return self._decoded or [self._decode_linewise([], self._first)]

    def _decode_until(self, end: int, block_sizes: Sequence[int]) -> None:
        """Decode the lines before `end` in blocks of the first size, declined ones in smaller."""
        while self._position < end:
            stop = self._block_end(block_sizes[0], end)
            block_bytes = self._offsets[stop] - self._offsets[self._position]
            if not _MIN_BLOCK_BYTES <= block_bytes <= _BLOCK_BYTES[0]:
                self._decode_linewise_until(stop)
            elif self._read(stop):
                self._linewise_bytes = _MIN_LINEWISE_BYTES
            elif len(block_sizes) > 1:
                self._decode_until(stop, block_sizes[1:])
            else:
                self._decode_linewise_until(self._block_end(self._linewise_bytes, len(self._lines)))
                self._linewise_bytes = min(2 * self._linewise_bytes, _MAX_LINEWISE_BYTES)

    def _block_end(self, block_bytes: int, end: int) -> int:
        """The end of the longest block of at least one line from the position on."""
        block_end = self._offsets[self._position] + block_bytes
        stop = int(np.searchsorted(self._offsets, block_end, side="right")) - 1
        return min(max(stop, self._position + 1), end)

    def _read(self, stop: int) -> bool:
        """Decode the lines before `stop` as a block; False if that is declined."""
        lines = self._lines[self._position : stop]
        table = self._read_block(lines)
        if table is None:
            return False
        line_numbers = np.arange(self._position, stop) + self._first
        self._decoded.append(DecodedRows(table, line_numbers, lines, []))
        self._position = stop
        return True

    def _decode_linewise_until(self, stop: int) -> None:
        lines = self._lines[self._position : stop]
        self._decoded.append(self._decode_linewise(lines, self._first + self._position))
        self._position = stop


def _concat(decoded: Sequence[DecodedRows]) -> DecodedRows:
    if len(decoded) == 1:
        return decoded[0]
    raw: list[bytes] = []
    refused = []
    for rows in decoded:
        raw += rows.raw
        refused += rows.refused_lines
    return DecodedRows(
        table=pa.concat_tables([rows.table for rows in decoded]),
        line_numbers=np.concatenate([rows.line_numbers for rows in decoded]),
        raw=raw,
        refused_lines=refused,
    )
