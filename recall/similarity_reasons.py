"""Why a past event is similar to a new one and why it is not the same, in plain sentences. No I/O.

The sentences are made from the terms of both contexts, `attribute=value`. Values of a hierarchy, such
as paths and qualified names, are shortened to what they share, with `/` between the levels. Numbers
become ranges. Values come from records: they are stripped of control characters and shortened, and
whoever shows the sentences escapes them.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import isfinite

_MAX_ATTRIBUTES = 3  # in a sentence
_MAX_VALUES = 2  # of an attribute
_MAX_VALUE = 60  # characters of a value
_MAX_ATTRIBUTE = 40  # characters of the name of an attribute
_MIN_SHARE = 0.01
_PLAIN = re.compile(r"[\w./:@%+-]+")
_LEVELS = re.compile(r"/|\\|::|\.")
# Categories of characters that change how the text around them is shown.
_UNSHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")

Attributes = dict[str, list[str]]


def explain_similarity(
    shared: Iterable[tuple[str, float]], only_new: Iterable[str], only_past: Iterable[str]
) -> list[str]:
    """At most three sentences.

    `shared`: terms of both events with their share of the score, largest first. `only_new`,
    `only_past`: terms of one of them.
    """
    sentences = [_describe_shared(shared)]
    new, past = _group(only_new), _group(only_past)
    different = [name for name in new if name in past]
    sentences.append(_describe_differences(different, new, past))
    new_names = [name for name in new if name not in past]
    past_names = [name for name in past if name not in new]
    sentences.append(_describe_missing(new_names, new, past_names, past))
    if not new and not past and sentences[0]:
        sentences[1] = "Their contexts have the same terms."
    return [sentence for sentence in sentences if sentence]


def _describe_shared(shared: Iterable[tuple[str, float]]) -> str:
    """`Both have msg “disk full” and cpu 91–95: 63 % of the similarity.`"""
    values: Attributes = {}
    shares: dict[str, float] = {}
    for term, share in shared:
        name, value = _split(term)
        values.setdefault(name, []).append(value)
        shares[name] = shares.get(name, 0.0) + share
    names = sorted(values, key=lambda name: -shares[name])[:_MAX_ATTRIBUTES]
    if not names:
        return ""
    total = sum(shares[name] for name in names)
    parts = [_join(name, _describe_values(values[name])) for name in names]
    weight = f": {total:.0%} of the similarity" if isfinite(total) and total >= _MIN_SHARE else ""
    return f"Both have {_enumerate(parts)}{weight}."


def _describe_differences(names: Sequence[str], new: Attributes, past: Attributes) -> str:
    """`Different: host is n7 now and was n3 then.`"""
    parts = []
    for name in names[:_MAX_ATTRIBUTES]:
        prefix = _shared_levels(new[name] + past[name])
        now, then = _below(prefix, new[name]), _below(prefix, past[name])
        below = f" below {'/'.join(map(_clean_value, prefix))}" if prefix else ""
        parts.append(f"{_join(name, '')}{below} is {now} now and was {then} then")
    return f"Different: {'; '.join(parts)}." if parts else ""


def _describe_missing(
    new_names: Sequence[str], new: Attributes, past_names: Sequence[str], past: Attributes
) -> str:
    """`Only the new one has msg “oom”; only the past one has deploy d7.`"""
    parts = []
    for which, names, values in (("new", new_names, new), ("past", past_names, past)):
        if names:
            described = [
                _join(name, _describe_values(values[name])) for name in names[:_MAX_ATTRIBUTES]
            ]
            parts.append(f"only the {which} one has {_enumerate(described)}")
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""


def _group(terms: Iterable[str]) -> Attributes:
    """The values of each attribute, in the order of the terms."""
    values: Attributes = {}
    for term in terms:
        name, value = _split(term)
        values.setdefault(name, []).append(value)
    return values


def _split(term: str) -> tuple[str, str]:
    """Attribute and value; a term without `=` has no attribute."""
    name, separator, value = term.partition("=")
    return (name, value) if separator else ("", term)


def _describe_values(values: Sequence[str]) -> str:
    """Numbers as a range, values of a hierarchy by what they share, others by the first ones."""
    near = _describe_near_numbers(values)
    if near is not None:
        return near
    numbers = _parse_numbers(values)
    if numbers is not None:
        return _describe_range(numbers)
    prefix = _shared_levels(values) if len(values) > 1 else []
    if prefix:
        return f"{'/'.join(map(_clean_value, prefix))}/… ({len(values)} values)"
    shown = [_quote(value) for value in values[:_MAX_VALUES]]
    if len(values) > _MAX_VALUES:
        shown.append(f"{len(values) - _MAX_VALUES} more")
    return _enumerate(shown)


def _describe_near_numbers(values: Sequence[str]) -> str | None:
    """Numbers that were compared by how near they are, `93.5 95~91.2`; None: these are others."""
    if len(values) != 1 or values[0].count("~") != 1:
        return None
    now, then = (_parse_numbers(part.split()) for part in values[0].split("~"))
    if now is None or then is None:
        return None
    return f"near values ({_describe_range(now)} now, {_describe_range(then)} then)"


def _parse_numbers(values: Sequence[str]) -> list[float] | None:
    """None if one of them is not a finite number."""
    numbers = []
    for value in values:
        try:
            number = float(value)
        except ValueError:
            return None
        if not isfinite(number) or "_" in value:
            return None
        numbers.append(number)
    return numbers or None


def _describe_range(numbers: Sequence[float]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def _levels(value: str) -> list[str]:
    """The levels of a value of a hierarchy, such as a path; empty: it is none."""
    if not _PLAIN.fullmatch(value.replace("\\", "/")):
        return []
    levels = _LEVELS.split(value)
    if all(level.isdigit() or not level for level in levels):
        return []  # a version, or an address
    return levels if len(levels) > 1 else []


def _shared_levels(values: Sequence[str]) -> list[str]:
    """The upper levels that all values have; empty if there is none but the root."""
    paths = [_levels(value) for value in values]
    if not all(paths) or len(values) < 2:
        return []
    columns = zip(*(path[:-1] for path in paths), strict=False)
    prefix = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns)]
    return prefix if any(prefix) else []


def _below(prefix: Sequence[str], values: Sequence[str]) -> str:
    """Values without the levels that are named before."""
    if not prefix:
        return _describe_values(values)
    rests = ["/".join(_levels(value)[len(prefix) :]) for value in values]
    return _describe_values(rests)


def _quote(value: str) -> str:
    cleaned = _clean_value(value)
    if not cleaned:
        return "an empty value"
    return cleaned if _PLAIN.fullmatch(cleaned) else f"“{cleaned}”"


def _join(name: str, value: str) -> str:
    cleaned = _clean(name, _MAX_ATTRIBUTE) or "a term"
    return f"{cleaned} {value}" if value else cleaned


def _clean_value(value: str) -> str:
    return _clean(value, _MAX_VALUE)


def _clean(text: str, max_length: int) -> str:
    """Text in one line without characters that change how others are shown, shortened."""
    # Only so much is looked at: a value may have a megabyte.
    start = text[: 4 * max_length]
    shown = (
        " " if unicodedata.category(character) in _UNSHOWN else character for character in start
    )
    cleaned = " ".join("".join(shown).split())
    if len(cleaned) > max_length or len(text) > len(start):
        return f"{cleaned[: max_length - 1]}…"
    return cleaned


def _enumerate(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
