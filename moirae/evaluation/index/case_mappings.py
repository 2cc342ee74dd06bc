"""Case of texts as Spark's functions and Java's patterns see it. No I/O."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

from moirae.evaluation.index import case_data

_ENTRY = re.compile(r"([0-9A-F]+)(?:-([0-9A-F]+)(/2)?)?([+-][0-9A-F]+)")
_DOT_ABOVE = "\u0307"
_ASCII_UPPER = {code: chr(code + 32) for code in range(ord("A"), ord("Z") + 1)}

CaseMapping = Mapping[int, str]
"""Images of code points; other code points are their own image. For `str.translate`."""


@cache
def lower_mapping() -> CaseMapping:
    """Spark's `lower`, except for a sigma at the end of a word, which becomes σ here, not ς."""
    return _parse(case_data.LOWER)


@cache
def upper_mapping() -> CaseMapping:
    """Spark's `upper`."""
    return _parse(case_data.UPPER)


@cache
def pattern_mapping() -> CaseMapping:
    """What patterns with the flags `iu` compare: equal characters have one image."""
    return _parse(case_data.PATTERN_CASE)


@cache
def ascii_mapping() -> CaseMapping:
    """What patterns with the flag `i` alone compare."""
    return _ASCII_UPPER


@cache
def folding() -> CaseMapping:
    """A mapping that is coarser than each of the others.

    Texts with equal images under any of the others have equal images here, and the image of a part
    of a text is part of its image. So a text that contains a literal in any case, folded, contains
    the folded literal.
    """
    # To patterns, `İ` is `i`; to `lower` it is `i` and a dot above. So that dot is nothing.
    images = {ord(_DOT_ABOVE): ""}
    links: dict[int, set[int]] = defaultdict(set)
    expansions: dict[int, str] = {}
    for mapping in (lower_mapping(), upper_mapping(), pattern_mapping()):
        for code, image in mapping.items():
            image = image.replace(_DOT_ABOVE, "")
            if len(image) == 1:
                links[code].add(ord(image))
                links[ord(image)].add(code)
            else:
                expansions[code] = image
    single_images: dict[int, str] = {}
    expanding_groups: list[tuple[set[int], str]] = []
    for group in _groups(links, expansions):
        expansion = next((expansions[code] for code in sorted(group) if code in expansions), None)
        if expansion is None:
            lowest = min(group, key=lambda code: (code in lower_mapping(), code))
            single_images |= dict.fromkeys(group - {lowest}, chr(lowest))
        else:
            expanding_groups.append((group, expansion))
    images |= single_images
    for group, expansion in expanding_groups:
        images |= dict.fromkeys(group, expansion.translate(single_images))
    return images


def _groups(links: Mapping[int, set[int]], expansions: Mapping[int, str]) -> Iterator[set[int]]:
    """The sets of code points that are linked to each other, directly or not."""
    remaining = links.keys() | expansions.keys()
    while remaining:
        pending = [remaining.pop()]
        group: set[int] = set()
        while pending:
            code = pending.pop()
            group.add(code)
            pending += links.get(code, set()) - group
        remaining -= group
        yield group


@cache
def _parse(entries: str) -> CaseMapping:
    mapping: dict[int, str] = {}
    for entry in entries.split():
        first, separator, images = entry.partition("=")
        if separator:
            mapping[int(first, 16)] = "".join(chr(int(code, 16)) for code in images.split(","))
            continue
        match = _ENTRY.fullmatch(entry)
        assert match is not None, entry
        start, end, step, distance = match.groups()
        codes = range(int(start, 16), int(end or start, 16) + 1, 2 if step else 1)
        for code in codes:
            mapping[code] = chr(code + int(distance, 16))
    return mapping
