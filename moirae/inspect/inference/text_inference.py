"""Patterns of log lines that begin with a time, or have one in their middle. No I/O."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from archiver.formats import Format

_FRACTION = r"(?:[.,][0-9]+)?"
_TIME_OF_DAY = rf"[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_FRACTION}"
_ZONE_NAMES = (
    "UTC|GMT|WET|WEST|BST|CET|CEST|EET|EEST|MSK|IST|JST|AEST|AEDT|EST|EDT|CST|CDT|MST|MDT|PST|PDT"
)
TIME_PATTERNS = (
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_TIME_OF_DAY}"
    rf"(?:Z| ?(?:{_ZONE_NAMES})\b| ?[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?",
    rf"[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}} {_TIME_OF_DAY}",
    rf"[0-9]{{2}}/[A-Z][a-z]{{2}}/[0-9]{{4}}:{_TIME_OF_DAY}(?: [+-][0-9]{{4}})?",
    rf"[0-9]{{2}}[./-][0-9]{{2}}[./-][0-9]{{4}} {_TIME_OF_DAY}",
    rf"[0-9]{{2}}-[A-Z][a-z]{{2}}-[0-9]{{4}} {_TIME_OF_DAY}(?: UTC)?",
    rf"[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +[0-9]{{1,2}} {_TIME_OF_DAY}(?: [A-Z]{{3,4}})? [0-9]{{4}}",
    rf"[0-9]{{1,2}} [A-Z][a-z]{{2}} [0-9]{{4}} {_TIME_OF_DAY}",
    rf"[A-Z][a-z]{{2}} +[0-9]{{1,2}}(?: [0-9]{{4}})? {_TIME_OF_DAY}",
    rf"[0-9]{{6}} {_TIME_OF_DAY}",
    rf"[0-9]{{2}}/[0-9]{{2}}/[0-9]{{2}} {_TIME_OF_DAY}",
    rf"[0-9]{{2}}-[0-9]{{2}} {_TIME_OF_DAY}",
    r"[0-9]{9,19}(?:\.[0-9]+)?",
)
"""Times of log lines, in RE2's syntax."""
# Programs that write to a terminal colour their lines.
_BEFORE_TIME = r"(?:\x1b\[[0-9;]*m)?[^0-9A-Za-z]?"
_LABELLED = re.compile(r"(?:^|\t)([A-Za-z][A-Za-z0-9_.-]*):([^\t]*)")
_LABELLED_LINE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:[^\t]*(?:\t[A-Za-z][A-Za-z0-9_.-]*:[^\t]*)+")
_MIN_LABELLED_SHARE = 0.6  # of the lines that the pattern must read
_LEVEL = "(?i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"


def infer_text(lines: Sequence[bytes]) -> tuple[Format, dict[str, Any]]:
    """Text with the pattern that finds a time in each record; without one, if there is none."""
    texts = [line.decode("utf-8", "replace") for line in lines[:200]]
    options = (
        _infer_beginnings(texts) or _infer_times_within(texts) or _infer_repeated_beginning(texts)
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
    for time_pattern in TIME_PATTERNS:
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


def _infer_times_within(texts: Sequence[str]) -> dict[str, str] | None:
    """A pattern for lines that all have a time."""
    for time_pattern in TIME_PATTERNS:
        if all(re.search(rf"\b{time_pattern}\b", text) for text in texts):
            return {"pattern": rf"(?P<prefix>.*?)\b(?P<time>{time_pattern})\b(?P<message>.*)"}
    return None


def _infer_repeated_beginning(texts: Sequence[str]) -> dict[str, str] | None:
    """Options for records of several lines, of which the first has a text before its time."""
    for time_pattern in TIME_PATTERNS:
        match = re.match(rf"([^0-9]+)\b{time_pattern}\b", texts[0])
        if match is None:
            continue
        beginning = re.escape(match[1]) + time_pattern
        if sum(re.match(beginning, text) is not None for text in texts) > 1:
            pattern = rf"{re.escape(match[1])}(?P<time>{time_pattern})\s*(?P<message>.*)"
            return {"pattern": pattern, "starts_with": beginning}
    return None
