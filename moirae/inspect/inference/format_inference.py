"""The format of a file by its content."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from archiver.formats import Format, FormatName, is_position, name_positions
from archiver.ingest import (
    find_encoding_mark,
    iterate_blocks,
    load_json,
    open_content,
    sample_records,
)
from moirae.inspect.inference.csv_inference import infer_csv
from moirae.inspect.inference.field_types import summarize_fields
from moirae.inspect.inference.text_inference import infer_labelled, infer_text

_SAMPLE_BYTES = 1 << 20
_MIN_SHARE = 0.6  # of the lines that a format must read
_LINE_FORMATS: tuple[FormatName, ...] = ("combined", "common", "klog", "cri", "syslog")
_JOURNAL_EXPORT = b"__CURSOR="
_SAMPLED_ITEMS = 20  # of each array
_MAX_DEPTH = 4  # of arrays of records
KLOG_START = "[IWEF][0-9]{4}"
_HOST = re.compile(r"(?=.*[A-Za-z:.])[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_LIST_FIELDS = frozenset({"apiVersion", "kind"})  # of lists of Kubernetes: they tell nothing


@dataclass(frozen=True)
class InferredFormat:
    """A format, and the options of a source that declare it."""

    format: Format
    options: dict[str, Any]
    open_questions: list[str] = field(default_factory=list)


def infer_formats(path: Path) -> Iterator[InferredFormat]:
    """The formats that may read a file, the likeliest first. Raises `ValueError` without lines."""
    content, options = _read_beginning(path)
    if content.startswith(b"PAR1"):
        yield InferredFormat(Format("parquet"), {"format": "parquet"})
        return
    if content.startswith(_JOURNAL_EXPORT):
        raise ValueError(
            f"{path}: this is the export format of the journal, which no format reads: write it by "
            "`journalctl -o json`"
        )
    text = content.removeprefix(b"\xef\xbb\xbf")
    lines = [line.rstrip(b"\r") for line in text.split(b"\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path}: the file has no lines")
    if len(content) >= _SAMPLE_BYTES and len(lines) > 1:
        lines.pop()
    encoding = options.get("encoding")
    for record_format, format_options, questions in _infer_options(path, lines, text, encoding):
        declared = replace(record_format, encoding=encoding)
        yield InferredFormat(declared, {**format_options, **options}, questions)


def _infer_options(
    path: Path, lines: Sequence[bytes], text: bytes, encoding: str | None
) -> Iterator[tuple[Format, dict[str, Any], list[str]]]:
    json_format = _infer_json(lines, text)
    if json_format is not None:
        yield *json_format, []
        return
    labelled = infer_labelled(lines)
    if labelled is not None:
        yield *labelled, []
    has_comment = lines[0].startswith(b"#")
    table = infer_csv(lines)
    if table is not None and has_comment:
        yield table
    for inferred in _infer_lines(path, lines, encoding):
        yield *inferred, []
    if table is not None:
        yield table
    yield *infer_text(lines), []


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
            encoding = _guess_narrow_encoding(raw)
            return raw.decode(encoding).encode(), {"encoding": encoding}
    return raw, {}


def _guess_narrow_encoding(raw: bytes) -> str:
    """Of Windows, if there are characters that are control codes in Latin-1."""
    if re.search(rb"[\x80-\x9f]", raw):
        with suppress(UnicodeDecodeError):
            raw.decode("cp1252")
            return "cp1252"
    return "latin-1"


def _guess_wide_encoding(raw: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of most texts is NUL."""
    sample = raw[:1000]
    for encoding, high_bytes in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[::2])):
        if high_bytes.count(0) > len(high_bytes) / 2 and not raw.startswith(b"PAR1"):
            return encoding
    return None


def _infer_json(lines: Sequence[bytes], text: bytes) -> tuple[Format, dict[str, Any]] | None:
    if re.match(rb"\s*[\[{]", text) is None:
        return None
    objects = [_load(line) for line in lines[:200]]
    if len(objects) > 1 and all(map(_is_array_of_values, objects)):
        return Format("jsonl"), {"format": "jsonl"}
    if re.match(rb"\s*(?:\{|\[\s*[\[{])", text) is None:
        return None
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
    """The array of objects, or of arrays, with times inside a document, and the texts beside it that
    these lack.
    """
    if not isinstance(value, dict):
        return None
    for path, items in _find_arrays(value):
        summaries = summarize_fields(items[:_SAMPLED_ITEMS])
        if not any(s.time is not None and (s.is_named_time or s.is_text_time) for s in summaries):
            continue
        item_fields = _LIST_FIELDS.union(*items)
        outer = [
            field_name
            for field_name, text in value.items()
            if isinstance(text, str) and "." not in field_name and field_name not in item_fields
        ]
        if is_position(next(iter(items[0]), "")):
            outer = []  # arrays get no fields of the document
        record_format = Format("json", records=path, outer=tuple(outer))
        options: dict[str, Any] = {"format": "json", "records": path}
        return record_format, {**options, "outer": outer} if outer else options
    return None


def _find_arrays(document: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The paths to arrays of objects, or of arrays, and their elements; those that are less deep
    come first.
    """
    level: list[tuple[str, list[dict[str, Any]]]] = [("", [document])]
    for _ in range(_MAX_DEPTH):
        deeper: dict[str, list[dict[str, Any]]] = {}
        for prefix, objects in level:
            for item in objects[:_SAMPLED_ITEMS]:
                for name, inner in item.items():
                    path = f"{prefix}{name}"
                    if isinstance(inner, list) and inner and all(map(_is_object, inner)):
                        deeper.setdefault(path, []).extend(inner)
                    elif isinstance(inner, list) and inner and all(map(_is_array_of_values, inner)):
                        deeper.setdefault(path, []).extend(map(name_positions, inner))
                    elif isinstance(inner, dict):
                        deeper.setdefault(f"{path}.", []).append(inner)
        yield from ((path, items) for path, items in deeper.items() if not path.endswith("."))
        level = [(path.rstrip(".") + ".", items) for path, items in deeper.items()]


def _is_array_of_values(value: Any) -> bool:
    """Whether a value is a row without names."""
    return isinstance(value, list) and bool(value) and not isinstance(value[0], list | dict)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _infer_lines(
    path: Path, lines: Sequence[bytes], encoding: str | None
) -> Iterator[tuple[Format, dict[str, Any]]]:
    sample = lines[:200]
    for name in (*_LINE_FORMATS, "logfmt"):
        records = sample_records(path, Format(name, encoding=encoding))
        if name == "logfmt" and not all(len(record) > 1 for record in records):
            continue
        if name == "syslog" and not _names_origins(records):
            continue  # times before texts
        is_short = name in ("combined", "common") and len(lines) <= 3
        # Parts of a line of a container are read with its end.
        parts = sum(map(_is_part_of_line, sample)) if name == "cri" else 0
        if records and (is_short or len(records) >= _MIN_SHARE * (len(sample) - parts)):
            yield Format(name), {"format": name}
        elif name == "klog" and re.match(KLOG_START.encode(), lines[0]) and records:
            # Traces of stacks follow.
            yield (
                Format(name, starts_with=KLOG_START),
                {"format": name, "starts_with": KLOG_START},
            )


def _is_part_of_line(line: bytes) -> bool:
    """Whether more of the line follows, as container runtimes write it."""
    return re.match(rb"\S+ (?:stdout|stderr) P\b", line) is not None


def _names_origins(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether most records of syslog have a priority, or an application at a host."""
    named = sum(
        "priority" in record or ("app" in record and _is_host(record.get("host")))
        for record in records
    )
    return named >= _MIN_SHARE * len(records)


def _is_host(name: str | None) -> bool:
    """Whether a word may be a host, which some systems leave out; not a level or a number."""
    return name is None or _HOST.fullmatch(name) is not None
