"""Proposes the declaration of a stream from a sample of a file. What a sample leaves open is named."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archiver.formats import CSV, JSONL, LOG_FORMATS, MISSING, find_value, is_position
from archiver.ingest import sample_records
from moirae.inspect.inference.csv_inference import COLUMNS_QUESTION
from moirae.inspect.inference.field_types import FieldSummary, summarize_fields
from moirae.inspect.inference.format_inference import InferredFormat, infer_formats

# Names of event times, the likeliest first; compared without case, dots and underscores.
_TIME_NAMES = (
    "ts", "time", "timestamp", "@timestamp", "datetime", "date", "eventtime", "lasttimestamp",
    "starttime", "created", "createdat", "published", "start", "when",
)  # fmt: skip
_KEY_NAMES = (
    "host", "hostname", "instance", "node", "machine", "device", "sensor", "station", "meter",
    "system", "unit", "site", "service", "name", "id",
)  # fmt: skip
# Other names of integers that are no amounts: host_id, nodeId, rack_number.
_TEXT_NAMES = ("message", "msg", "text", "body", "log")  # say what happened, not to what
_NUMBER_OF_THING = re.compile(r"(?:[_. -](?i:id|num|no|number)|[a-z](?:Id|ID|Num|No|Number))$")
_TIME_OF_DAY = re.compile(r"(?:^|\W)[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b")
_NO_VALUE = (None, MISSING)
_MAX_COLUMNS = 40
# Of a sample: bounds its time where records have thousands of fields.
_MIN_RECORDS = 20
_MAX_VALUES = 100_000
_MAX_KEY_SHARE = 0.5  # of the records: distinct values of a key


@dataclass(frozen=True)
class ProposedStream:
    """A declaration as a mapping. `open_questions`: what the sample does not tell.

    `is_relation`: it is one of a relation, because no field is a time.
    """

    declaration: Mapping[str, Any]
    open_questions: Sequence[str] = field(default_factory=list)
    is_relation: bool = False


def propose_stream(paths: Sequence[Path]) -> ProposedStream:
    """The declaration that reads files like these; the first one tells the format.

    Raises `ValueError` if the sample has no records, or neither a time nor a key.
    """
    sampled = _choose_sample(paths[0])
    if not sampled.time_names:
        return _propose_relation(paths[0], sampled)
    fields, time_names = sampled.fields, sampled.time_names
    questions = list(sampled.inferred.open_questions)
    time = next(summary for summary in fields if summary.name == time_names[0])
    time_of_day = _find_time_of_day(time, fields)
    columns: dict[str, Any] = {"ts": _column("ts", "timestamp", time.name)}
    if len(time_names) > 1:
        columns["ts"] = {"type": "timestamp", "from": time_names}
    if time_of_day is not None:
        columns["ts"] = "timestamp"
    names = {"ts"}
    for summary in fields[:_MAX_COLUMNS]:
        if summary.name not in time_names and summary is not time_of_day:
            name = _column_name(summary.name, names)
            columns[name] = _column(name, summary.type, summary.name)
    declaration: dict[str, Any] = {"columns": columns}
    declaration["time"], time_questions = _declare_time(time, time_of_day)
    key = _choose_key(fields, columns)
    if key is not None:
        declaration["key"] = [key]
    declaration["source"] = {"files": str(paths[0]), **sampled.inferred.options}
    questions += time_questions
    if all(is_position(summary.name) for summary in fields):
        questions.append(COLUMNS_QUESTION)
    assert time.time is not None
    if time.time.is_date and time_of_day is None and _has_other_time(fields, time):
        questions.append(f"times of day: {time.name} has dates alone")
    if sampled.inferred.format.name in LOG_FORMATS:
        questions.append("whether the file grows and rotates: then `tail: true`")
    return ProposedStream(declaration, questions)


@dataclass(frozen=True)
class _FileSample:
    """What a format reads. `time_names`: fields that are event times, of which each record has one."""

    inferred: InferredFormat
    records: Sequence[Mapping[str, Any]]
    fields: Sequence[FieldSummary]
    time_names: Sequence[str]


def _choose_sample(path: Path) -> _FileSample:
    """What the likeliest format reads that finds times; if none does, the likeliest one."""
    likeliest = None
    for inferred in infer_formats(path):
        sampled = _sample(path, inferred)
        if sampled.time_names:
            return sampled
        if sampled.records and likeliest is None:
            likeliest = sampled
    if likeliest is None:
        raise ValueError(f"{path}: no records that a format could read")
    return likeliest


def _sample(path: Path, inferred: InferredFormat) -> _FileSample:
    records = sample_records(path, inferred.format)
    if not records:
        return _FileSample(inferred, [], [], [])
    records = records[: max(_MIN_RECORDS, _MAX_VALUES // (len(records[0]) or 1))]
    fields = summarize_fields(records, inferred.format.csv.decimal)
    time = _choose_time(fields)
    names = _choose_alternative_times(fields, records) if time is None else [time.name]
    return _FileSample(inferred, records, fields, names)


def _propose_relation(path: Path, sampled: _FileSample) -> ProposedStream:
    fields = sampled.fields
    key = _choose_relation_key(sampled.records, fields)
    if not key or sampled.inferred.format not in (JSONL, CSV):
        hint = _describe_times_of_day(sampled)
        raise ValueError(f"{path}: no field is a time in all records{hint}")
    names: set[str] = set()
    columns: dict[str, Any] = {}
    key_columns: list[str] = []
    for summary in fields[:_MAX_COLUMNS]:
        name = _column_name(summary.name, names)
        columns[name] = _column(name, summary.type, summary.name)
        if summary.name in key:
            key_columns.append(name)
    source = {"file": str(path), **sampled.inferred.options}
    declaration = {"columns": columns, "key": key_columns, "source": source}
    question = "an event time, which rows of a stream have: so this is a relation"
    return ProposedStream(declaration, [question], is_relation=True)


def _describe_times_of_day(sampled: _FileSample) -> str:
    """What is missing where each record has a time of day."""
    texts = [" ".join(map(str, record.values())) for record in sampled.records]
    if texts and all(map(_TIME_OF_DAY.search, texts)):
        return ": times of day have no date: have the program write it"
    return ""


def _choose_relation_key(
    records: Sequence[Mapping[str, Any]], fields: Sequence[FieldSummary]
) -> Sequence[str]:
    """The first field, or first fields, of which no two of several records have the same values."""
    names = [
        summary.name
        for summary in fields[:_MAX_COLUMNS]
        if summary.is_whole and summary.type in ("string", "bigint")
    ]
    candidates = [[name] for name in names]
    candidates += [names[:count] for count in range(2, len(names) + 1)]
    for candidate in candidates:
        values = {tuple(str(find_value(record, name)) for name in candidate) for record in records}
        if 1 < len(values) == len(records):
            return candidate
    return ()


def _column(name: str, type_name: str, field_name: str) -> Any:
    return type_name if name == field_name else {"type": type_name, "from": field_name}


def _column_name(field_name: str, names: set[str]) -> str:
    """A name for a column that is read from a field; it is added to `names`, in lower case."""
    text = "".join(char if char.isascii() and char.isalnum() else "_" for char in field_name)
    text = text.strip("_") or "field"
    if not text[0].isalpha():
        text = f"f_{text}"
    text = text[:60]
    name, count = text, 2
    while name.lower() in {*names, "chunk"}:
        name, count = f"{text}_{count}", count + 1
    names.add(name.lower())
    return name


def _choose_time(fields: Sequence[FieldSummary]) -> FieldSummary | None:
    """The field that is likeliest the event time."""
    whole_fields = [summary for summary in fields if summary.is_whole]
    return next(iter(_rank_times(whole_fields)), None)


def _choose_alternative_times(
    fields: Sequence[FieldSummary], records: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Times in one notation of which each record has at least one, the likeliest first."""
    chosen: list[FieldSummary] = []
    without_time = list(records)
    for summary in _rank_times(fields):
        if chosen and not _is_same_notation(summary, chosen[0]):
            continue
        rest = [record for record in without_time if find_value(record, summary.name) in _NO_VALUE]
        if len(rest) < len(without_time):
            chosen.append(summary)
            without_time = rest
    return [] if without_time else [summary.name for summary in chosen]


def _is_same_notation(summary: FieldSummary, other: FieldSummary) -> bool:
    times = (summary.time, other.time)
    assert times[0] is not None
    assert times[1] is not None
    return (times[0].units, times[0].formats) == (times[1].units, times[1].formats)


def _rank_times(fields: Sequence[FieldSummary]) -> list[FieldSummary]:
    """The fields that may be the event time, the likeliest first."""
    candidates = [summary for summary in fields if summary.time is not None]

    def rank(summary: FieldSummary) -> tuple[int, bool]:
        plain = summary.name.rpartition(".")[2].lower().replace("_", "")
        names = [name.replace("_", "") for name in _TIME_NAMES]
        position = names.index(plain) if plain in names else len(names)
        return position, summary.type != "string"

    named = [summary for summary in candidates if summary.is_named_time or summary.is_text_time]
    return sorted(named, key=rank)


def _find_time_of_day(time: FieldSummary, fields: Sequence[FieldSummary]) -> FieldSummary | None:
    """The only field with the times of day, if the event time is a date."""
    assert time.time is not None
    candidates = [field for field in fields if field.time_of_day is not None and field.is_whole]
    return candidates[0] if time.time.is_date and len(candidates) == 1 else None


def _has_other_time(fields: Sequence[FieldSummary], time: FieldSummary) -> bool:
    return any(field.is_named_time for field in fields if field is not time)


def _declare_time(summary: FieldSummary, time_of_day: FieldSummary | None) -> tuple[Any, list[str]]:
    """The key `time`, and what the sample leaves open of it."""
    assert summary.time is not None
    options: dict[str, Any] = {"column": "ts"}
    questions: list[str] = []
    if len(summary.time.units) > 1:
        questions.append(f"unit of the numbers: {' or '.join(summary.time.units)}")
    elif summary.time.units and (summary.time.is_text or summary.time.units != ["s"]):
        options["unit"] = summary.time.units[0]
    formats = summary.time.formats
    if time_of_day is not None:
        options["fields"] = [summary.name, time_of_day.name]
        dates = [date for together in formats for date in together] or ["%Y-%m-%d"]
        formats = [[f"{date} {time_of_day.time_of_day}"] for date in dates]
    if len(formats) > 1:
        texts = " or ".join(" with ".join(together) for together in formats)
        questions.append(f"format of the times, day or month first: {texts}")
    elif formats:
        options["format"] = formats[0][0] if len(formats[0]) == 1 else list(formats[0])
    if summary.time.is_local:
        questions.append("zone of the times, which have no offset: `zone`, default UTC")
    return ("ts" if options == {"column": "ts"} else options), questions


def _choose_key(fields: Sequence[FieldSummary], columns: Mapping[str, Any]) -> str | None:
    """The column of a text, or of numbers of things, that names what the rows are about."""
    by_field = {
        column["from"] if isinstance(column, Mapping) else name: name
        for name, column in columns.items()
        if name != "ts"
    }
    ranked = [(rank, s.name) for s in fields if (rank := _rank_key(s)) is not None]
    return by_field.get(min(ranked)[1]) if ranked else None


def _rank_key(summary: FieldSummary) -> int | None:
    """How unlikely a field is the key; None: it is none."""
    if not summary.is_whole or summary.is_nested:
        return None
    plain = summary.name.rpartition(".")[2].lower()
    rank = _KEY_NAMES.index(plain) if plain in _KEY_NAMES else None
    repeats = summary.distinct <= max(1, summary.count * _MAX_KEY_SHARE)
    if summary.type == "string" and summary.time is None:
        # Of a field of any name, one value tells nothing.
        if rank is None and repeats and summary.distinct > 1 and plain not in _TEXT_NAMES:
            return len(_KEY_NAMES) + 1
        return rank
    if summary.type == "bigint" and repeats:
        if rank is None and _NUMBER_OF_THING.search(summary.name):
            return len(_KEY_NAMES)
        return rank
    return None
