"""A column of text in the cases that conditions compare it in. No I/O.

Each distinct value is mapped once, and all of them as one text.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moirae.evaluation.index.case_mappings import (
    CaseMapping,
    ascii_mapping,
    folding,
    lower_mapping,
    pattern_mapping,
    upper_mapping,
)

Case = Literal["raw", "lower", "upper", "pattern", "ascii", "folded"]
"""How a text is compared: as it is, under `lower` or `upper`, by patterns with the flags `iu`, by
patterns with the flag `i` alone, by the index.
"""

Values = Sequence[str | None]

_CODE_POINTS = 0x110000
_FIRST_FOREIGN_UNIT = 0x80  # of UTF-8 beyond ASCII
_MAX_REPLACED = 8  # letters; with others, a table of all images takes less time


class FoldedText(NamedTuple):
    """Folded values one after the other, and where each starts; the last start is the end."""

    text: str
    starts: npt.NDArray[np.int64]


class TextColumn:
    """The distinct values of a column, and which of them each row has."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        self._distinct: list[str] = encoded.dictionary.to_pylist()
        # Rows without a value have the position of None, which is the last one.
        positions = encoded.indices.fill_null(len(self._distinct))
        self.positions: npt.NDArray[np.int64] = positions.to_numpy().astype(np.int64)
        self._rows_by_value: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    def values(self, case: Case) -> list[str | None]:
        """The value of each row in a case."""
        distinct: list[str | None] = [*map_texts(self._distinct, case), None]
        return [distinct[position] for position in self.positions.tolist()]

    @cached_property
    def folded(self) -> FoldedText:
        """The distinct values, folded."""
        text = _map_joined("".join(self._distinct), "folded")
        values = self._distinct
        if text is None:
            values = map_texts(self._distinct, "folded")
            text = "".join(values)
        starts = np.fromiter(accumulate(map(len, values), initial=0), np.int64, len(values) + 1)
        return FoldedText(text, starts)

    def rows_of(
        self, value_numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows with any of some distinct values; for each the index of its number."""
        if self._rows_by_value is None:
            rows = np.argsort(self.positions, kind="stable")
            bounds = np.searchsorted(self.positions[rows], np.arange(len(self._distinct) + 1))
            self._rows_by_value = rows, bounds
        rows, bounds = self._rows_by_value
        return expand(rows, bounds, value_numbers)


def case_mapping(case: Case) -> CaseMapping | None:
    """The mapping of a case; None: values as they are."""
    match case:
        case "lower":
            return lower_mapping()
        case "upper":
            return upper_mapping()
        case "pattern":
            return pattern_mapping()
        case "ascii":
            return ascii_mapping()
        case "folded":
            return folding()
    return None


def map_text(text: str, case: Case) -> str:
    """A text in a case."""
    mapping = case_mapping(case)
    return text if mapping is None else text.translate(mapping)


def map_texts(texts: Sequence[str], case: Case) -> list[str]:
    """The images of texts."""
    mapping = case_mapping(case)
    if not texts or mapping is None:
        return list(texts)
    joined = _map_joined("".join(texts), case)
    if joined is None:
        return [text.translate(mapping) for text in texts]
    bounds = accumulate(map(len, texts), initial=0)
    return [joined[start:end] for start, end in pairwise(bounds)]


def _map_joined(text: str, case: Case) -> str | None:
    """The image of a text; None: a character of it has more or fewer than one."""
    if text.isascii():
        return text.upper() if case == "upper" else text.lower()
    # Most texts have few letters beyond ASCII: these are replaced one after the other.
    data = text.encode()
    units = np.frombuffer(data, np.uint8)
    mapping = case_mapping(case) or {}
    images: dict[str, str] = {}
    for letter in set(units[units >= _FIRST_FOREIGN_UNIT].tobytes().decode()):
        image = mapping.get(ord(letter), letter)
        if len(image) != 1:
            return None
        if image != letter:
            images[letter] = image
    if len(images) > _MAX_REPLACED or not images.keys().isdisjoint(images.values()):
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        return _image_table(case)[codes].tobytes().decode("utf-32-le")
    mapped = (data.upper() if case == "upper" else data.lower()).decode()
    for letter, image in images.items():
        mapped = mapped.replace(letter, image)
    return mapped


def expand(
    members: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64], groups: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All members of some groups; for each the index of its group in `groups`.

    Group n has the members from `bounds[n]` to `bounds[n + 1]`.
    """
    return expand_ranges(members, bounds[groups], bounds[groups + 1])


def expand_ranges(
    members: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """All members from starts to ends; for each the index of its range."""
    counts = ends - starts
    indexes = np.repeat(np.arange(len(counts)), counts)
    offsets = np.arange(len(indexes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return members[starts[indexes] + offsets], indexes


@cache
def _image_table(case: Case) -> npt.NDArray[np.uint32]:
    """The image of each code point."""
    table = np.arange(_CODE_POINTS, dtype=np.uint32)
    for code, image in (case_mapping(case) or {}).items():
        if len(image) == 1:
            table[code] = ord(image)
    return table
