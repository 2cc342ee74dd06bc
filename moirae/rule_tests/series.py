"""The notation of series: `1+2x3 _ 5x2`, as in tests of Prometheus. No I/O."""

import re

MISSING = object()
"""In place of a value that is left out."""

MAX_VALUES = 100_000  # of one series

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_STEPS = re.compile(rf"({_NUMBER})(?:([-+])({_NUMBER.removeprefix('[-+]?')}))?x(\d+)", re.ASCII)
_MISSING = re.compile(r"_(?:x(\d+))?", re.ASCII)
_QUOTED = re.compile(r'"([^"]*)"(?:x(\d+))?', re.ASCII)
_TOKEN = re.compile(r'"[^"]*"(?:x\d+)?|\S+', re.ASCII)
_PLAIN_NUMBER = re.compile(_NUMBER, re.ASCII)
_CONSTANTS = {"null": None, "true": True, "false": False}


def expand_series(text: str) -> list[object]:
    """The values of a series: numbers, texts, booleans, None, or `MISSING`.

    Raises `ValueError` with the reason.
    """
    values: list[object] = []
    for token in _TOKEN.findall(text):
        values += _expand(token)
        if len(values) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values")
    return values


def _expand(token: str) -> list[object]:
    if (match := _MISSING.fullmatch(token)) is not None:
        return [MISSING] * _parse_count(match[1] or "1")
    if (match := _STEPS.fullmatch(token)) is not None:
        start = _to_number(match[1])
        step = _to_number(match[3] or "0") * (-1 if match[2] == "-" else 1)
        return [start + number * step for number in range(_parse_count(match[4]) + 1)]
    if (match := _QUOTED.fullmatch(token)) is not None:
        return [match[1]] * (_parse_count(match[2] or "0") + 1)
    if _PLAIN_NUMBER.fullmatch(token):
        return [_to_number(token)]
    if token in _CONSTANTS:
        return [_CONSTANTS[token]]
    if token == "stale":
        raise ValueError("rows do not become stale; leave values out with _")
    if token.startswith(("{", '"')):
        raise ValueError(f"{token!r} is not a value")
    return [token]


def _parse_count(digits: str) -> int:
    count = int(digits[:9])
    if count > MAX_VALUES or len(digits) > 9:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    return count


def _to_number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)
