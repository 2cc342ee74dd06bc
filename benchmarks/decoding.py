"""S7: decoding of lines in blocks by Arrow's readers ÷ line by line, in rows per second.

Both decoders take the same lines in memory and return the same rows. Seconds are those of the
processor: both use one core.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import orjson

from archiver.formats import CSV, JSONL, RecordReading
from archiver.ingest.decoding import DecodedRows, decode_blocks, decode_lines
from benchmarks.archived_rows import ROW_INTERVAL, SCHEMA
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import measure_processor_seconds, time_noise_kernel

_REPETITIONS = 5
_ROW_COUNT = 200_000
_HOST_COUNT = 100
_MALFORMED_INTERVAL = 10_000  # lines from one malformed line to the next
_JSON = RecordReading(JSONL)
_CSV = RecordReading(CSV, tuple(SCHEMA.columns))
_START = np.datetime64("2026-01-01T00:00:00", "us")


def run() -> list[BenchmarkResult]:
    """Measure JSON lines, CSV lines, and JSON lines of which a few are malformed."""
    records = _create_records()
    json_lines = list(map(orjson.dumps, records))
    csv_lines = [",".join(map(str, record.values())).encode() for record in records]
    some_malformed = list(json_lines)
    some_malformed[::_MALFORMED_INTERVAL] = [b"{"] * len(json_lines[::_MALFORMED_INTERVAL])
    description = f"{_ROW_COUNT:,} JSON lines, 1 in {_MALFORMED_INTERVAL:,} malformed"
    return [
        _measure(f"{_ROW_COUNT:,} JSON lines", _JSON, json_lines, target="≥ 1.7"),
        _measure(f"{_ROW_COUNT:,} CSV lines", _CSV, csv_lines, target="≥ 1.7"),
        _measure(description, _JSON, some_malformed, target="–"),
    ]


def _create_records() -> list[dict[str, object]]:
    rng = np.random.default_rng(1)
    times = _START + np.arange(_ROW_COUNT) * np.timedelta64(ROW_INTERVAL, "us")
    hosts = rng.integers(0, _HOST_COUNT, _ROW_COUNT).tolist()
    numbers = rng.uniform(0, 100, _ROW_COUNT).round(2).tolist()
    records: list[dict[str, object]] = []
    for n, (time, host, number) in enumerate(zip(times, hosts, numbers, strict=True)):
        records.append({"ts": f"{time}Z", "host": f"h{host}", "n": n, "v": number})
    return records


def _measure(
    description: str, reading: RecordReading, lines: Sequence[bytes], target: str
) -> BenchmarkResult:
    blockwise: list[float] = []
    linewise: list[float] = []
    noise: list[float] = []
    decode_blocks(SCHEMA, reading, lines, 1)  # not measured: the first is slower
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        for decode, rates in ((decode_blocks, blockwise), (decode_lines, linewise)):
            step: Callable[[], DecodedRows] = partial(decode, SCHEMA, reading, lines, first=1)
            rates.append(len(lines) / measure_processor_seconds(step))
    ratios = [fast / slow for fast, slow in zip(blockwise, linewise, strict=True)]
    print(f"{description}: {statistics.median(ratios):.2f}", file=sys.stderr)
    return make_result(
        "S7",
        f"decoding in blocks ÷ line by line, {description}",
        ratios,
        target=target,
        details={
            "blocks_rows_per_s": rounded_median(blockwise, 0),
            "lines_rows_per_s": rounded_median(linewise, 0),
        },
        noise=noise,
    )
