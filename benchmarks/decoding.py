"""S7: decoding of lines in blocks by Arrow's readers ÷ line by line, in rows per second.

D4: decoding of nested JSON, and of log lines, ÷ that of flat JSON with the same fields.

Both decoders take the same lines in memory and return the same rows. Seconds are those of the
processor: both use one core.
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import orjson

from archiver.formats import CSV, JSONL, Format, RecordReading
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
    """Measure JSON lines, CSV lines, JSON lines of which a few are malformed, and formats."""
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
        *_measure_formats(),
    ]


def _measure_formats() -> list[BenchmarkResult]:
    """D4: rows a second and core of each format ÷ those of flat JSON with the same fields."""
    requests = list(map(_create_request, range(_ROW_COUNT // 4)))
    messages = list(map(_create_message, range(_ROW_COUNT // 4)))
    return [
        _compare("nested JSON", JSONL, requests, _nest(requests), 0.6),
        _compare("combined", Format("combined"), requests, _combined(requests), 0.5),
        _compare("syslog", Format("syslog"), messages, _syslog(messages), 0.5),
    ]


def _compare(
    name: str,
    record_format: Format,
    records: Sequence[dict[str, object]],
    lines: Sequence[bytes],
    target: float,
) -> BenchmarkResult:
    kinds = {
        field: "int" if isinstance(records[0][field], int) else "string" for field in records[0]
    }
    flat = replace(SCHEMA, columns={**kinds, "ts": "timestamp"}, key=())
    fields = {"ts": ("time",)}
    if record_format is JSONL:
        fields = {field: (f"http.{field}",) for field in records[0]}
    schema = replace(flat, fields=fields)
    flat_lines = list(map(orjson.dumps, records))
    ratios: list[float] = []
    noise: list[float] = []
    reading = RecordReading(record_format)
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        seconds = measure_processor_seconds(partial(decode_blocks, schema, reading, lines, 1))
        flat_step = partial(decode_blocks, flat, _JSON, flat_lines, 1)
        ratios.append(measure_processor_seconds(flat_step) / seconds)
    print(f"{name} ÷ flat JSON: {statistics.median(ratios):.2f}", file=sys.stderr)
    return make_result(
        "D4",
        f"decoding of {name} ÷ flat JSON with the same fields, {len(lines):,} rows",
        ratios,
        target=f"≥ {target}",
        details={},
        noise=noise,
    )


def _time(number: int) -> str:
    return f"{np.datetime64('2026-11-20T10:00:00') + np.timedelta64(number % 3600, 's')}Z"


def _create_request(number: int) -> dict[str, object]:
    return {
        "ts": _time(number),
        "host": f"203.0.113.{number % 250}",
        "method": "GET",
        "path": f"/items/{number}?page=1",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": number,
        "referer": "https://example.org/items",
        "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    }


def _create_message(number: int) -> dict[str, object]:
    return {
        "ts": _time(number),
        "host": f"web-{number % 250}",
        "app": "app",
        "pid": 8710,
        "msgid": "ID47",
        "priority": 34,
        "facility": 4,
        "severity": 2,
        "message": f"request {number} was answered",
    }


def _nest(records: Sequence[dict[str, object]]) -> list[bytes]:
    return [orjson.dumps({"http": record}) for record in records]


def _combined(records: Sequence[dict[str, object]]) -> list[bytes]:
    lines: list[bytes] = []
    for r in records:
        request = f"{r['method']} {r['path']} {r['protocol']}"
        time = f"20/Nov/2026:{str(r['ts'])[11:19]} +0000"
        result = f"{r['status']} {r['bytes']}"
        text = f'{r["host"]} - - [{time}] "{request}" {result} "{r["referer"]}" "{r["agent"]}"'
        lines.append(text.encode())
    return lines


def _syslog(records: Sequence[dict[str, object]]) -> list[bytes]:
    return [
        f"<34>1 {r['ts']} {r['host']} {r['app']} {r['pid']} {r['msgid']} - {r['message']}".encode()
        for r in records
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
