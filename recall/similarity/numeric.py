"""Numeric attributes of contexts, compared by how near their values are (Moirae, CIDR 2007, §3.5).

A value v weighs IDF(v) = log10(n / Σ exp(−½((v_i − v)/h)²)) over the n values of history; two values add the product of
their weights times exp(−½((v1 − v2)/h)²) to a score. The bandwidth h is Silverman's rule of thumb unless it is given
(Silverman, Density Estimation, 1986, eq. 3.31). History is a histogram.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recall.similarity.corpus import Floats
from recall.similarity.kernel import compiled

# Bins of a histogram that hold anything.
MAX_BINS = 4096
# Bandwidths beyond which a value adds nothing that shows: exp(−32).
_MAX_BANDWIDTHS = 8.0

RowIndexes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NumericValues:
    """Numbers of some contexts: which row has which value of which attribute; by row, then attribute."""

    rows: RowIndexes
    attributes: RowIndexes
    values: Floats

    def for_attribute(self, attribute: int) -> "NumericValues":
        """Those of one attribute."""
        mine = self.attributes == attribute
        return NumericValues(self.rows[mine], self.attributes[mine], self.values[mine])

    def slice_rows(self, first: int, last: int) -> "NumericValues":
        """Those of rows from `first` to before `last`, which is row 0 then."""
        low, high = np.searchsorted(self.rows, [first, last])
        return NumericValues(
            self.rows[low:high] - first, self.attributes[low:high], self.values[low:high]
        )


@dataclass(frozen=True)
class Histogram:
    """A histogram whose bins are 2**exponent wide and begin at multiples of that: the smallest exponent at which at
    most `BINS` bins hold anything. So it follows from the values alone, whatever order or parts they came in."""

    exponent: int
    keys: RowIndexes
    counts: Floats
    sums: Floats

    @classmethod
    def from_values(cls, values: Floats) -> "Histogram":
        """From finite values."""
        largest = float(np.abs(values).max(initial=0.0))
        exponent = max(int(np.frexp(largest)[1]) - 52, -1000)
        keys = np.floor(np.ldexp(values, -exponent)).astype(np.int64)
        return cls(exponent, keys, np.ones(len(values)), values)._rebinned()

    @classmethod
    def merge(cls, parts: Sequence["Histogram"]) -> "Histogram":
        """Of the values of all."""
        exponent = max(part.exponent for part in parts)
        keys = np.concatenate([part.keys >> min(exponent - part.exponent, 63) for part in parts])
        counts, sums = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "sums")
        )
        return cls(exponent, keys, counts, sums)._rebinned()

    def _rebinned(self) -> "Histogram":
        found = self
        while True:
            keys, place = np.unique(found.keys, return_inverse=True)
            if len(keys) <= MAX_BINS:
                return Histogram(
                    found.exponent,
                    keys,
                    _sum_bins(place, found.counts),
                    _sum_bins(place, found.sums),
                )
            found = Histogram(found.exponent + 1, found.keys >> 1, found.counts, found.sums)

    @property
    def value_count(self) -> float:
        """How many values."""
        return float(self.counts.sum())

    @property
    def bin_width(self) -> float:
        """Of a bin."""
        return float(np.ldexp(1.0, self.exponent))

    def bandwidth(self) -> float:
        """Silverman's rule: 0.9 · min(standard deviation, interquartile range / 1.34) · n^(−1/5)."""
        means = self.sums / self.counts
        mean = self.sums.sum() / self.value_count
        deviation = float(
            np.sqrt((self.counts * (means - mean) ** 2).sum() / max(self.value_count - 1, 1))
        )
        ends = np.cumsum(self.counts)
        quarter, most = means[
            np.searchsorted(ends, [0.25 * self.value_count, 0.75 * self.value_count])
        ]
        spread = min(deviation, float(most - quarter) / 1.34) or deviation
        smallest = max(float(np.abs(means).max(initial=0.0)), 1.0) * 1e-9
        return max(0.9 * spread * float(self.value_count**-0.2), smallest)

    def kernel_sums(self, values: Floats, bandwidth: float) -> Floats:
        """Σ exp(−½((v_i − v)/h)²) for some v. Off by n·(width/h)²/8 at most: each value stands at its bin's mean."""
        found = np.empty(len(values))
        _kernel_sums(
            values, self.sums / self.counts, self.counts, bandwidth, _MAX_BANDWIDTHS, found
        )
        return found


@compiled
def _kernel_sums(values, means, counts, h, far, found):  # type: ignore[no-untyped-def]
    for place in range(len(values)):
        value, total = values[place], 0.0
        at = np.searchsorted(means, value - far * h)
        while at < len(means) and means[at] <= value + far * h:
            apart = (means[at] - value) / h
            total += counts[at] * np.exp(-0.5 * apart * apart)
            at += 1
        found[place] = total


def _sum_bins(place: RowIndexes, values: Floats) -> Floats:
    found = np.zeros(int(place.max(initial=-1)) + 1)
    np.add.at(found, place, values)
    return found


@dataclass(frozen=True)
class AttributeScale:
    """How the values of one attribute are weighed for one question."""

    histogram: Histogram
    bandwidth: float

    def weights(self, values: Floats) -> Floats:
        """IDF; the value itself is always counted."""
        weights: Floats = np.log10(
            self.histogram.value_count
            / np.clip(
                self.histogram.kernel_sums(values, self.bandwidth), 1, self.histogram.value_count
            )
        )
        return weights

    def similarity(self, left: Floats, right: Floats) -> Floats:
        """1 for equal values, less the further apart they are."""
        found: Floats = np.exp(-0.5 * ((left - right) / self.bandwidth) ** 2)
        return found


# By the attribute's number, which is its place among the names.
Scales = Mapping[int, AttributeScale]
NO_VALUES = NumericValues(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def numeric_products(
    query: NumericValues, past: NumericValues, scales: Scales, rows: int
) -> Floats:
    """What the values that are near each other add to the product of the weights of the query and of each row."""
    found = np.zeros(rows)
    for attribute, scale in scales.items():
        mine, theirs = query.for_attribute(attribute), past.for_attribute(attribute)
        weights = scale.weights(theirs.values) if len(mine.values) else np.empty(0)
        for value, weight in zip(mine.values, scale.weights(mine.values), strict=True):
            found += np.bincount(
                theirs.rows, weight * weights * scale.similarity(theirs.values, value), rows
            )
    return found


def numeric_squares(values: NumericValues, scales: Scales, rows: int) -> Floats:
    """What its values add to the square of the norm of each row. Several of one attribute are near each other too."""
    found = np.zeros(rows)
    for attribute, scale in scales.items():
        mine = values.for_attribute(attribute)
        weights = scale.weights(mine.values)
        found += np.bincount(mine.rows, weights**2, rows)
        apart = 1
        while (same := mine.rows[apart:] == mine.rows[:-apart]).any():
            pair = (
                2
                * weights[apart:]
                * weights[:-apart]
                * scale.similarity(mine.values[apart:], mine.values[:-apart])
            )
            found += np.bincount(mine.rows[apart:][same], pair[same], rows)
            apart += 1
    return found


def build_scales(
    parts: Sequence[NumericValues], event_values: NumericValues, bandwidths: Sequence[float | None]
) -> dict[int, AttributeScale]:
    """The scales of all attributes, by what is counted: some parts, and the event's own values."""
    found = {}
    for attribute, given in enumerate(bandwidths):
        values = [
            v for part in (*parts, event_values) if len(v := part.for_attribute(attribute).values)
        ]
        if values:
            synopsis = Histogram.merge([Histogram.from_values(v) for v in values])
            found[attribute] = AttributeScale(
                synopsis, synopsis.bandwidth() if given is None else given
            )
    return found


def flatten_values(numbers: Iterable[Mapping[int, Sequence[float]]]) -> NumericValues:
    """The values of some contexts, row by row."""
    found = [
        (row, attribute, value)
        for row, mine in enumerate(numbers)
        for attribute in sorted(mine)
        for value in mine[attribute]
    ]
    rows, attributes, values = zip(*found, strict=True) if found else ((), (), ())
    return NumericValues(
        np.array(rows, np.int64), np.array(attributes, np.int64), np.array(values, np.float64)
    )
