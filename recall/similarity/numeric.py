"""Numeric attributes of contexts, compared by how near their values are (Moirae, CIDR 2007, §3.5).

A value v weighs IDF(v) = log10(n / Σ exp(−½((v_i − v)/h)²)) over the n values of history. Two
values add the product of their weights times exp(−½((v1 − v2)/h)²) to a score. The bandwidth h is
declared in the rule or follows Silverman's rule of thumb (Silverman, Density Estimation, 1986,
eq. 3.31). History is summarised as a histogram. No I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recall.similarity.compilation import compiled
from recall.similarity.measures import Floats

# Maximum number of non-empty bins of a histogram.
MAX_BINS = 4096
# Beyond this distance a value adds less than exp(−32).
_MAX_DISTANCE = 8.0  # bandwidths

Integers = npt.NDArray[np.int64]
RowMask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class NumericValues:
    """Numeric values of some contexts, as parallel arrays ordered by row, then attribute."""

    rows: Integers
    attributes: Integers
    values: Floats

    def select(self, mask: RowMask) -> "NumericValues":
        """The values at which a mask is true."""
        return NumericValues(self.rows[mask], self.attributes[mask], self.values[mask])

    def for_attribute(self, attribute: int) -> "NumericValues":
        """The values of one attribute."""
        return self.select(self.attributes == attribute)

    def slice_rows(self, first: int, last: int) -> "NumericValues":
        """The values of the rows from `first` to before `last`, renumbered from 0."""
        low, high = np.searchsorted(self.rows, [first, last])
        return NumericValues(
            self.rows[low:high] - first, self.attributes[low:high], self.values[low:high]
        )


NO_VALUES = NumericValues(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Histogram:
    """A histogram whose bins are 2**exponent wide and begin at multiples of that.

    The exponent is the smallest at which at most `MAX_BINS` bins are not empty. The histogram
    therefore depends on the values alone, not on their order or on how they were split. Exception:
    a part that has no value other than 0 makes the bins of a merged histogram 2**-52 wide at least.
    """

    exponent: int
    keys: Integers
    """The non-empty bins, ascending: a bin begins at key · 2**exponent."""
    counts: Floats
    """The number of values by bin."""
    sums: Floats
    """The sum of the values by bin."""

    @classmethod
    def from_values(cls, values: Floats) -> "Histogram":
        """Build a histogram of finite values."""
        largest = float(np.abs(values).max(initial=0.0))
        exponent = max(int(np.frexp(largest)[1]) - 52, -1000)
        keys = np.floor(np.ldexp(values, -exponent)).astype(np.int64)
        return cls(exponent, keys, np.ones(len(values)), values)._rebinned()

    @classmethod
    def merge(cls, parts: Sequence["Histogram"]) -> "Histogram":
        """Build the histogram of the values of all parts."""
        exponent = max(part.exponent for part in parts)
        keys = np.concatenate([part.keys >> min(exponent - part.exponent, 63) for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        sums = np.concatenate([part.sums for part in parts])
        return cls(exponent, keys, counts, sums)._rebinned()

    def _rebinned(self) -> "Histogram":
        """Equal keys combined, with bins wide enough to satisfy `MAX_BINS`."""
        exponent, bin_keys = self.exponent, self.keys
        while True:
            keys, bins = np.unique(bin_keys, return_inverse=True)
            if len(keys) <= MAX_BINS:
                counts, sums = _sum_by_bin(bins, self.counts), _sum_by_bin(bins, self.sums)
                return Histogram(exponent, keys, counts, sums)
            exponent, bin_keys = exponent + 1, bin_keys >> 1

    @property
    def value_count(self) -> float:
        return float(self.counts.sum())

    @property
    def bin_width(self) -> float:
        return float(np.ldexp(1.0, self.exponent))

    def bandwidth(self) -> float:
        """Silverman's rule: 0.9 · min(standard deviation, interquartile range / 1.34) · n^(−1/5).

        Always above 0, also if all values are equal.
        """
        means = self.sums / self.counts
        mean = self.sums.sum() / self.value_count
        square_sum = (self.counts * (means - mean) ** 2).sum()
        deviation = float(np.sqrt(square_sum / max(self.value_count - 1, 1)))
        cumulative_counts = np.cumsum(self.counts)
        ranks = [0.25 * self.value_count, 0.75 * self.value_count]
        lower_quartile, upper_quartile = means[np.searchsorted(cumulative_counts, ranks)]
        spread = min(deviation, float(upper_quartile - lower_quartile) / 1.34) or deviation
        smallest = max(float(np.abs(means).max(initial=0.0)), 1.0) * 1e-9
        return max(0.9 * spread * float(self.value_count**-0.2), smallest)

    def kernel_sums(self, values: Floats, bandwidth: float) -> Floats:
        """Σ exp(−½((v_i − v)/h)²) over the histogram, for each v in `values`.

        Values are replaced by the mean of their bin. The error is at most n·(bin width/h)²/8.
        """
        sums = np.empty(len(values))
        means = self.sums / self.counts
        _kernel_sums(values, means, self.counts, bandwidth, _MAX_DISTANCE, sums)
        return sums


@compiled
def _kernel_sums(values, means, counts, bandwidth, max_distance, sums):  # type: ignore[no-untyped-def]
    for number in range(len(values)):
        value, total = values[number], 0.0
        bin_number = np.searchsorted(means, value - max_distance * bandwidth)
        while bin_number < len(means) and means[bin_number] <= value + max_distance * bandwidth:
            distance = (means[bin_number] - value) / bandwidth
            total += counts[bin_number] * np.exp(-0.5 * distance * distance)
            bin_number += 1
        sums[number] = total


def _sum_by_bin(bins: Integers, values: Floats) -> Floats:
    """`bins`: the bin of each value."""
    sums = np.zeros(int(bins.max(initial=-1)) + 1)
    np.add.at(sums, bins, values)
    return sums


@dataclass(frozen=True)
class AttributeScale:
    """How the values of one attribute are weighted for one question."""

    histogram: Histogram
    """The values that are counted."""
    bandwidth: float

    def weights(self, values: Floats) -> Floats:
        """IDF of each value. A value that was not counted weighs as if it were."""
        value_count = self.histogram.value_count
        near_counts = np.clip(self.histogram.kernel_sums(values, self.bandwidth), 1, value_count)
        weights: Floats = np.log10(value_count / near_counts)
        return weights

    def similarity(self, values: Floats, reference: Floats | float) -> Floats:
        """exp(−½(distance/h)²): 1 for equal values, towards 0 for distant ones."""
        similarities: Floats = np.exp(-0.5 * ((values - reference) / self.bandwidth) ** 2)
        return similarities


# By the attribute's number: its position among the sorted names.
Scales = Mapping[int, AttributeScale]


def numeric_products(
    query: NumericValues, past: NumericValues, scales: Scales, row_count: int
) -> Floats:
    """For each past row, what numeric values add to the product of query and row."""
    products = np.zeros(row_count)
    for attribute, scale in scales.items():
        query_values = query.for_attribute(attribute).values
        past_values = past.for_attribute(attribute)
        if not len(query_values):
            continue
        past_weights = scale.weights(past_values.values)
        for value, weight in zip(query_values, scale.weights(query_values), strict=True):
            pairs = weight * past_weights * scale.similarity(past_values.values, value)
            products += np.bincount(past_values.rows, pairs, row_count)
    return products


def numeric_squares(values: NumericValues, scales: Scales, row_count: int) -> Floats:
    """For each row, what numeric values add to the square of its norm.

    Several values of one attribute in a row are compared with each other too.
    """
    squares = np.zeros(row_count)
    for attribute, scale in scales.items():
        own = values.for_attribute(attribute)
        weights = scale.weights(own.values)
        squares += np.bincount(own.rows, weights**2, row_count)
        # Pairs of values that are `offset` apart in the arrays, as long as some share a row.
        offset = 1
        while (same_row := own.rows[offset:] == own.rows[:-offset]).any():
            similarities = scale.similarity(own.values[offset:], own.values[:-offset])
            pairs = 2 * weights[offset:] * weights[:-offset] * similarities
            squares += np.bincount(own.rows[offset:][same_row], pairs[same_row], row_count)
            offset += 1
    return squares


def build_scales(
    parts: Sequence[NumericValues], event_values: NumericValues, bandwidths: Sequence[float | None]
) -> dict[int, AttributeScale]:
    """The scales of all attributes that have values, from the counted values.

    These are the values of `parts` and the event's own. `bandwidths`: by attribute; None:
    Silverman's rule.
    """
    scales = {}
    for attribute, declared_bandwidth in enumerate(bandwidths):
        histograms = []
        for part in (*parts, event_values):
            values = part.for_attribute(attribute).values
            if len(values):
                histograms.append(Histogram.from_values(values))
        if histograms:
            histogram = Histogram.merge(histograms)
            bandwidth = declared_bandwidth
            if bandwidth is None:
                bandwidth = histogram.bandwidth()
            scales[attribute] = AttributeScale(histogram, bandwidth)
    return scales


def flatten_values(rows: Iterable[Mapping[int, Sequence[float]]]) -> NumericValues:
    """The values of some contexts. Each row maps attribute numbers to values."""
    row_numbers: list[int] = []
    attributes: list[int] = []
    values: list[float] = []
    for row_number, values_by_attribute in enumerate(rows):
        for attribute, attribute_values in sorted(values_by_attribute.items()):
            row_numbers += [row_number] * len(attribute_values)
            attributes += [attribute] * len(attribute_values)
            values += attribute_values
    return NumericValues(
        np.array(row_numbers, np.int64),
        np.array(attributes, np.int64),
        np.array(values, np.float64),
    )
