"""The format of a file by its content."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from archiver.formats import CsvDialect, Format, FormatName
from archiver.ingest import (
    find_encoding_mark,
    iterate_blocks,
    load_json,
    named_delimiter,
    open_content,
    sample_records,
)

_SAMPLE_BYTES = 1 << 20
_MIN_SHARE = 0.6  # of the lines that a format must read
_LINE_FORMATS: tuple[FormatName, ...] = ("combined", "common", "klog", "cri", "syslog")
_LIST_FIELDS = frozenset({"apiVersion", "kind"})  # of lists of Kubernetes: they tell nothing
_DELIMITERS = (",", ";", "\t", "|", " ")
_MIN_WORDS = 4  # of a line of a table that blanks divide
_NUMBER_WITH_SIGN = re.compile(rb'\s*"?[+-]?[0-9]+([.,])[0-9]+"?\s*')
# Beginnings of log lines: the pattern of the time, and that of the first line of a record.
_TIME_PATTERNS = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
    r"(?:Z| ?(?:UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?",
    r"[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?",
    r"[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9:]{8} [+-][0-9]{4}",
    r"[0-9]{2}[./-][0-9]{2}[./-][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?",
    r"[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:]{8}(?:\.[0-9]+)?",
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8}(?: [A-Z]{3,4})? [0-9]{4}",
    r"[A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8}",
    r"[0-9]{6} [0-9]{2}:[0-9]{2}:[0-9]{2}",
    r"[0-9]{9,19}",
)
_LEVEL = "(?i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"


@dataclass(frozen=True)
class InferredFormat:
    """A format, and the options of a source that declare it."""

    format: Format
    options: dict[str, Any]
    open_questions: list[str] = field(default_factory=list)


def infer_format(path: Path) -> InferredFormat:
    """The format that reads a file. Raises `ValueError` if it has no lines."""
    content, options = _read_beginning(path)
    encoding = options.get("encoding")
    if content.startswith(b"PAR1"):
        return InferredFormat(Format("parquet"), {"format": "parquet"})
    text = content.removeprefix(b"\xef\xbb\xbf")
    lines = [line.rstrip(b"\r") for line in text.split(b"\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path}: the file has no lines")
    if len(content) >= _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()
    inferred = _infer_json(lines, text) or _infer_named_fields(lines)
    inferred = inferred or _infer_lines(path, lines, encoding) or _infer_csv(lines)
    if inferred is None:
        inferred = _infer_text(lines)
    record_format, format_options = inferred
    return InferredFormat(replace(record_format, encoding=encoding), {**format_options, **options})


def _read_beginning(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The first bytes in UTF-8, and the encoding if it must be declared."""
    with open_content(path) as file:
        raw = file.read(_SAMPLE_BYTES)
    if find_encoding_mark(raw) is not None:
        with open_content(path) as file:
            return next(iterate_blocks(file, None), b""), {}
    encoding = _guess_wide_encoding(raw)
    if encoding is not None:
        return raw.decode(encoding, "ignore").encode(), {"encoding": encoding}
    try:
        raw[: raw.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        if not raw.startswith(b"PAR1"):
            return raw.decode("latin-1").encode(), {"encoding": "latin-1"}
    return raw, {}


def _guess_wide_encoding(raw: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of most texts is NUL."""
    sample = raw[:1000]
    for encoding, high_bytes in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        if high_bytes.count(0) > len(high_bytes) / 2 and not raw.startswith(b"PAR1"):
            return encoding
    return None


def _infer_json(lines: Sequence[bytes], text: bytes) -> tuple[Format, dict[str, Any]] | None:
    if re.match(rb"\s*(?:\{|\[\s*[\[{])", text) is None:
        return None
    objects = [_load(line) for line in lines[:200]]
    share = sum(isinstance(value, dict) for value in objects) / len(objects)
    if share >= _MIN_SHARE:
        first = next(value for value in objects if isinstance(value, dict))
        inner = _declare_records(first) if len(lines) == 1 else None
        if inner is not None:
            return inner
        if {"log", "stream", "time"} <= first.keys():
            return Format("docker"), {"format": "docker"}
        return Format("jsonl"), {"format": "jsonl"}
    inner = _declare_records(_load(text))
    if inner is not None:
        return inner
    return Format("json"), {"format": "json"}


def _load(text: bytes) -> Any:
    try:
        return load_json(text)
    except orjson.JSONDecodeError:
        return None


def _declare_records(value: Any) -> tuple[Format, dict[str, Any]] | None:
    """The array of objects inside a document, and the texts beside it that these lack."""
    if not isinstance(value, dict):
        return None
    for name, items in value.items():
        if not isinstance(items, list) or not items or not all(map(_is_object, items)):
            continue
        item_fields = _LIST_FIELDS.union(*items)
        outer = [
            field_name
            for field_name, text in value.items()
            if isinstance(text, str) and "." not in field_name and field_name not in item_fields
        ]
        record_format = Format("json", records=name, outer=tuple(outer))
        options: dict[str, Any] = {"format": "json", "records": name}
        return record_format, {**options, "outer": outer} if outer else options
    return None


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _infer_lines(
    path: Path, lines: Sequence[bytes], encoding: str | None
) -> tuple[Format, dict[str, Any]] | None:
    for name in (*_LINE_FORMATS, "logfmt"):
        record_format = Format(name, encoding=encoding)
        records = sample_records(path, record_format)
        is_pairs = name != "logfmt" or all(len(record) > 1 for record in records)
        if name == "syslog" and not _names_origins(records):
            continue  # times before texts
        if records and is_pairs and len(records) >= _MIN_SHARE * min(len(lines), 200):
            return record_format, {"format": name}
        if name in ("combined", "common") and records and len(lines) <= 3:
            return record_format, {"format": name}
    return None


def _names_origins(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether most records of syslog have a host or a priority."""
    named = sum("host" in record or "priority" in record for record in records)
    return named >= _MIN_SHARE * len(records)


def _infer_named_fields(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any]] | None:
    """Fields that a comment names, as in the extended log format of web servers, or of Zeek."""
    for line in lines[:50]:
        named = re.fullmatch(rb"#\s?[Ff]ields:?([ \t])(.+)", line)
        if named is None:
            continue
        delimiter, names = named[1].decode(), named[2].decode().split(named[1].decode())
        rows = [row for row in lines[:200] if not row.startswith(b"#")]
        if rows and all(row.count(named[1]) == len(names) - 1 for row in rows):
            dialect = CsvDialect(delimiter, comment="#", header=False, names=tuple(names))
            declared = {"delimiter": delimiter, "comment": "#", "header": False, "names": names}
            return Format("csv", csv=dialect), {"format": "csv", "csv": declared}
    return None


def _infer_csv(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any]] | None:
    named = named_delimiter(lines[0])
    if named is not None:
        lines = lines[1:]
    rows = [line for line in lines[:200] if not line.startswith(b"#")]
    if len(rows) < 2:
        return None
    for delimiter in _DELIMITERS if named is None else (named,):
        count = _count_delimiters(rows[0], delimiter)
        same = sum(_count_delimiters(row, delimiter) == count for row in rows)
        if not count or same < _MIN_SHARE * len(rows):
            continue
        if any(re.fullmatch(rb'"?[0-9.:-]+"?', cell) for cell in rows[0].split(delimiter.encode())):
            continue  # no header
        if delimiter == " " and not _is_table_of_words(rows):
            continue
        options: dict[str, Any] = {}
        if delimiter != ",":
            options["delimiter"] = delimiter
        if len(rows) < len(lines[:200]):
            options["comment"] = "#"
        if delimiter != "," and _has_decimal_commas(rows[1:], delimiter):
            options["decimal"] = ","
        record_format = Format("csv", csv=CsvDialect(**options))
        declared: dict[str, Any] = {"format": "csv"}
        return record_format, {**declared, "csv": options} if options else declared
    return None


def _is_table_of_words(rows: Sequence[bytes]) -> bool:
    """Whether a header of different names is above lines of as many words, as no text has it."""
    names = rows[0].split(b" ")
    is_header = all(re.fullmatch(rb"[A-Za-z_][A-Za-z0-9_.-]*", name) for name in names)
    return (
        is_header
        and len(set(names)) == len(names) >= _MIN_WORDS
        and all(len(row.split()) == row.count(b" ") + 1 == len(names) for row in rows[1:])
    )


def _has_decimal_commas(rows: Sequence[bytes], delimiter: str) -> bool:
    """Whether some cells are numbers with a comma, and none is one with a point."""
    cells = [cell for row in rows for cell in row.split(delimiter.encode())]
    numbers = [number[1] for cell in cells if (number := _NUMBER_WITH_SIGN.fullmatch(cell))]
    return b"," in numbers and b"." not in numbers


def _count_delimiters(line: bytes, delimiter: str) -> int:
    return re.sub(rb'"(?:[^"]|"")*"', b"", line).count(delimiter.encode())


def _infer_text(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any]]:
    texts = [line.decode("utf-8", "replace") for line in lines[:200]]
    for time_pattern in _TIME_PATTERNS:
        starts = [text for text in texts if re.match(rf"\W?{time_pattern}\b", text)]
        if not starts or not re.match(rf"\W?{time_pattern}", texts[0]):
            continue
        level = re.compile(rf"\W?{time_pattern}\W+{_LEVEL}\b")
        pattern = rf"[^0-9A-Za-z]?(?P<time>{time_pattern})"
        if all(level.match(text) for text in starts):
            pattern += rf"[^0-9A-Za-z]+(?P<level>{_LEVEL})\b"
        pattern += r"[\]:,|\s-]*"
        options = {"format": "text", "pattern": pattern + "(?P<message>.*)"}
        if len(starts) < len(texts):
            options["starts_with"] = rf"[^0-9A-Za-z]?{time_pattern}"
        return (
            Format("text", pattern=options["pattern"], starts_with=options.get("starts_with")),
            options,
        )
    for time_pattern in _TIME_PATTERNS:
        if all(re.search(time_pattern, text) for text in texts):
            pattern = rf"(?P<prefix>.*?)(?P<time>{time_pattern})(?P<message>.*)"
            return Format("text", pattern=pattern), {"format": "text", "pattern": pattern}
    return Format("text"), {"format": "text"}
