"""Patterns of log lines that begin with a time, or have one in their middle. No I/O."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from archiver.formats import Format

_TIME_OF_DAY = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?: [AaPp][Mm]\b)?"
_ZONE_NAMES = (
    "UTC|GMT|WET|WEST|BST|CET|CEST|EET|EEST|MSK|IST|JST|AEST|AEDT|EST|EDT|CST|CDT|MST|MDT|PST|PDT"
)
_ZONE = rf"(?:Z| ?(?:{_ZONE_NAMES})\b| ?[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?"
_YEAR = "[0-9]{4}"
_TWO = "[0-9]{2}"  # digits
_DAY = "[0-9]{1,2}"
_MONTH = "[A-Za-z][a-z]{2}"
# Between a date and its time of day.
_GAP = "(?: +|[T_:-]| - |, )"
TIME_PATTERNS = (
    rf"{_YEAR}-{_TWO}-{_TWO}{_GAP}{_TIME_OF_DAY}{_ZONE}",
    rf"{_YEAR}-[0-9]{{3}}T{_TIME_OF_DAY}{_ZONE}",  # the day of the year
    rf"{_YEAR}(?:/{_TWO}/|\.{_TWO}\.|:{_TWO}:){_TWO}{_GAP}{_TIME_OF_DAY}",
    rf"{_TWO}[/-]{_MONTH}[/-]{_YEAR}{_GAP}{_TIME_OF_DAY}(?: (?:[+-][0-9]{{4}}|UTC))?",
    rf"{_TWO}[./-]{_TWO}[./-]{_YEAR}{_GAP}{_TIME_OF_DAY}(?: [+-][0-9]{{4}})?",
    rf"{_MONTH} {_MONTH} +{_DAY} {_TIME_OF_DAY}(?: [A-Z]{{3,4}})? {_YEAR}",
    rf"{_DAY} {_MONTH} {_YEAR} {_TIME_OF_DAY}",
    rf"{_MONTH} +{_DAY}(?:,? {_YEAR})? {_TIME_OF_DAY}",
    rf"[0-9]{{6}} +{_TIME_OF_DAY}",
    rf"{_TWO}/{_TWO}/{_TWO}{_GAP}{_TIME_OF_DAY}",
    rf"{_TWO}-{_TWO} {_TIME_OF_DAY}",
    r"[0-9]{9,19}(?:\.[0-9]+)?",
)
"""Times of log lines, in RE2's syntax."""
# Programs that write to a terminal colour their lines.
_BEFORE_TIME = r"(?:\x1b\[[0-9;]*m)?[^0-9A-Za-z]?"
_LABELLED = re.compile(r"(?:^|\t)([A-Za-z][A-Za-z0-9_.-]*):([^\t]*)")
_LABELLED_LINE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:[^\t]*(?:\t[A-Za-z][A-Za-z0-9_.-]*:[^\t]*)+")
_MIN_LABELLED_SHARE = 0.6  # of the lines that the pattern must read
_MAX_HEADING = 5  # lines above the first record
_LEVEL = "(?i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"


def infer_text(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any]]:
    """Text with the pattern that finds a time in each record; without one, if there is none."""
    texts = [line.decode("utf-8", "replace") for line in lines[:200]]
    options = (
        _infer_beginnings(texts)
        or _infer_times_within(texts)
        or _infer_repeated_beginning(texts)
        or _infer_beginnings(_without_heading(texts))
    )
    options = {"format": "text", **(options or {})}
    inferred = Format(
        "text", pattern=options.get("pattern"), starts_with=options.get("starts_with")
    )
    return inferred, options


def infer_labelled(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any]] | None:
    """Text whose pattern reads fields with labels that tabs divide (LTSV); None: the lines have none.

    Labels that some lines lack are optional.
    """
    texts = [line.decode("utf-8", "replace") for line in lines[:200]]
    rows = [dict(_LABELLED.findall(text)) for text in texts if _LABELLED_LINE.fullmatch(text)]
    if not rows or len(rows) < _MIN_LABELLED_SHARE * len(texts):
        return None
    labels = _merge_labels(rows)
    names = [re.sub("[^A-Za-z0-9]", "_", label) for label in labels]
    if len(set(names)) < len(names):  # a group has one name
        return None
    pattern = ""
    for label, name in zip(labels, names, strict=True):
        values = [row[label] for row in rows if label in row]
        is_bracketed = all(value[:1] == "[" and value[-1:] == "]" for value in values)
        group = rf"(?P<{name}>"
        value = rf"\[{group}[^\t\]]*)\]" if is_bracketed else rf"{group}[^\t]*)"
        if "-" in values:  # no value
            value = f"(?:-|{value})"
        part = rf"{re.escape(label)}:{value}"
        if pattern:
            part = rf"\t{part}"
        pattern += part if len(values) == len(rows) else f"(?:{part})?"
    is_read = [re.fullmatch(pattern, text) is not None for text in texts]
    if sum(is_read) < _MIN_LABELLED_SHARE * len(texts):
        return None
    return Format("text", pattern=pattern), {"format": "text", "pattern": pattern}


def _merge_labels(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The labels of all rows: one that only some have stands behind that which it follows there."""
    labels: list[str] = []
    for row in rows:
        position = 0
        for label in row:
            if label not in labels:
                labels.insert(position, label)
            position = labels.index(label) + 1
    return labels


def _infer_beginnings(texts: Sequence[str]) -> dict[str, str] | None:
    """Options for records that begin with a time; other lines belong to the record before."""
    for time_pattern in TIME_PATTERNS if texts else ():
        starts = [text for text in texts if re.match(rf"{_BEFORE_TIME}{time_pattern}\b", text)]
        if not starts or starts[0] is not texts[0]:
            continue
        level = re.compile(rf"{_BEFORE_TIME}{time_pattern}\W+{_LEVEL}\b")
        pattern = rf"{_BEFORE_TIME}(?P<time>{time_pattern})"
        if all(level.match(text) for text in starts):
            pattern += rf"[^0-9A-Za-z]+(?P<level>{_LEVEL})\b"
        options = {"pattern": pattern + r"[\]:,|>\s-]*(?P<message>.*)"}
        if len(starts) < len(texts):
            options["starts_with"] = rf"{_BEFORE_TIME}{time_pattern}"
        return options
    return None


def _without_heading(texts: Sequence[str]) -> Sequence[str]:
    """The lines without the first few, which tell what a program is; nothing if no record follows.

    They are refused.
    """
    starts = [
        number
        for number, text in enumerate(texts)
        if any(re.match(rf"{_BEFORE_TIME}{pattern}\b", text) for pattern in TIME_PATTERNS)
    ]
    is_heading = len(starts) > starts[0] <= _MAX_HEADING if starts else False
    return texts[starts[0] :] if is_heading else ()


def _infer_times_within(texts: Sequence[str]) -> dict[str, str] | None:
    """A pattern for lines that all have a time."""
    for time_pattern in TIME_PATTERNS:
        if all(re.search(rf"\b{time_pattern}\b", text) for text in texts):
            return {"pattern": rf"(?P<prefix>.*?)\b(?P<time>{time_pattern})\b(?P<message>.*)"}
    return None


def _infer_repeated_beginning(texts: Sequence[str]) -> dict[str, str] | None:
    """Options for records of several lines, of which the first has a text before its time: always
    the same, or a word.
    """
    for time_pattern in TIME_PATTERNS:
        match = re.match(rf"([^0-9]+)\b{time_pattern}\b", texts[0])
        if match is None:
            continue
        for prefix in (re.escape(match[1]), r"(?:[A-Za-z][^ ]*?[:\[(|])"):
            beginning = prefix + time_pattern
            if sum(re.match(beginning, text) is not None for text in texts) > 1:
                pattern = rf"{prefix}(?P<time>{time_pattern})\s*(?P<message>.*)"
                if prefix.startswith("(?:"):
                    pattern = rf"(?P<prefix>{prefix[3:]}" + pattern.removeprefix(prefix)
                return {"pattern": pattern, "starts_with": beginning}
    return None
