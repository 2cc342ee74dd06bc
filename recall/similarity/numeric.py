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
BINS = 4096
# Bandwidths beyond which a value adds nothing that shows: exp(−32).
_FAR = 8.0

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Values:
    """Numbers of some contexts: which row has which value of which attribute; by row, then attribute."""

    rows: Places
    attributes: Places
    values: Floats

    def of(self, attribute: int) -> "Values":
        """Those of one attribute."""
        mine = self.attributes == attribute
        return Values(self.rows[mine], self.attributes[mine], self.values[mine])

    def within(self, first: int, last: int) -> "Values":
        """Those of rows from `first` to before `last`, which is row 0 then."""
        low, high = np.searchsorted(self.rows, [first, last])
        return Values(self.rows[low:high] - first, self.attributes[low:high], self.values[low:high])


@dataclass(frozen=True)
class Synopsis:
    """A histogram whose bins are 2**exponent wide and begin at multiples of that: the smallest exponent at which at
    most `BINS` bins hold anything. So it follows from the values alone, whatever order or parts they came in."""

    exponent: int
    keys: Places
    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, values: Floats) -> "Synopsis":
        """From finite values."""
        largest = float(np.abs(values).max(initial=0.0))
        exponent = max(int(np.frexp(largest)[1]) - 52, -1000)
        keys = np.floor(np.ldexp(values, -exponent)).astype(np.int64)
        return cls(exponent, keys, np.ones(len(values)), values)._binned()

    @classmethod
    def merged(cls, parts: Sequence["Synopsis"]) -> "Synopsis":
        """Of the values of all."""
        exponent = max(part.exponent for part in parts)
        keys = np.concatenate([part.keys >> min(exponent - part.exponent, 63) for part in parts])
        counts, sums = (np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "sums"))
        return cls(exponent, keys, counts, sums)._binned()

    def _binned(self) -> "Synopsis":
        found = self
        while True:
            keys, place = np.unique(found.keys, return_inverse=True)
            if len(keys) <= BINS:
                return Synopsis(found.exponent, keys, _sums(place, found.counts), _sums(place, found.sums))
            found = Synopsis(found.exponent + 1, found.keys >> 1, found.counts, found.sums)

    @property
    def n(self) -> float:
        """How many values."""
        return float(self.counts.sum())

    @property
    def width(self) -> float:
        """Of a bin."""
        return float(np.ldexp(1.0, self.exponent))

    def bandwidth(self) -> float:
        """Silverman's rule: 0.9 · min(standard deviation, interquartile range / 1.34) · n^(−1/5)."""
        means = self.sums / self.counts
        mean = self.sums.sum() / self.n
        deviation = float(np.sqrt((self.counts * (means - mean) ** 2).sum() / max(self.n - 1, 1)))
        ends = np.cumsum(self.counts)
        quarter, most = means[np.searchsorted(ends, [0.25 * self.n, 0.75 * self.n])]
        spread = min(deviation, float(most - quarter) / 1.34) or deviation
        smallest = max(float(np.abs(means).max(initial=0.0)), 1.0) * 1e-9
        return max(0.9 * spread * float(self.n**-0.2), smallest)

    def near(self, values: Floats, h: float) -> Floats:
        """Σ exp(−½((v_i − v)/h)²) for some v. Off by n·(width/h)²/8 at most: each value stands at its bin's mean."""
        found = np.empty(len(values))
        _near(values, self.sums / self.counts, self.counts, h, _FAR, found)
        return found


@compiled
def _near(values, means, counts, h, far, found):  # type: ignore[no-untyped-def]
    for place in range(len(values)):
        value, total = values[place], 0.0
        at = np.searchsorted(means, value - far * h)
        while at < len(means) and means[at] <= value + far * h:
            apart = (means[at] - value) / h
            total += counts[at] * np.exp(-0.5 * apart * apart)
            at += 1
        found[place] = total


def _sums(place: Places, values: Floats) -> Floats:
    found = np.zeros(int(place.max(initial=-1)) + 1)
    np.add.at(found, place, values)
    return found


@dataclass(frozen=True)
class Scale:
    """How the values of one attribute are weighed for one question."""

    synopsis: Synopsis
    h: float

    def weights(self, values: Floats) -> Floats:
        """IDF; the value itself is always counted."""
        weights: Floats = np.log10(self.synopsis.n / np.clip(self.synopsis.near(values, self.h), 1, self.synopsis.n))
        return weights

    def alike(self, one: Floats, other: Floats) -> Floats:
        """1 for equal values, less the further apart they are."""
        found: Floats = np.exp(-0.5 * ((one - other) / self.h) ** 2)
        return found


# By the attribute's number, which is its place among the names.
Scales = Mapping[int, Scale]
NOTHING = Values(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def products(query: Values, past: Values, scales: Scales, rows: int) -> Floats:
    """What the values that are near each other add to the product of the weights of the query and of each row."""
    found = np.zeros(rows)
    for attribute, scale in scales.items():
        mine, theirs = query.of(attribute), past.of(attribute)
        weights = scale.weights(theirs.values) if len(mine.values) else np.empty(0)
        for value, weight in zip(mine.values, scale.weights(mine.values), strict=True):
            found += np.bincount(theirs.rows, weight * weights * scale.alike(theirs.values, value), rows)
    return found


def squares(values: Values, scales: Scales, rows: int) -> Floats:
    """What its values add to the square of the norm of each row. Several of one attribute are near each other too."""
    found = np.zeros(rows)
    for attribute, scale in scales.items():
        mine = values.of(attribute)
        weights = scale.weights(mine.values)
        found += np.bincount(mine.rows, weights**2, rows)
        apart = 1
        while (same := mine.rows[apart:] == mine.rows[:-apart]).any():
            pair = 2 * weights[apart:] * weights[:-apart] * scale.alike(mine.values[apart:], mine.values[:-apart])
            found += np.bincount(mine.rows[apart:][same], pair[same], rows)
            apart += 1
    return found


def scales(parts: Sequence[Values], own: Values, bandwidths: Sequence[float | None]) -> dict[int, Scale]:
    """The scales of all attributes, by what is counted: some parts, and the event's own values."""
    found = {}
    for attribute, given in enumerate(bandwidths):
        values = [v for part in (*parts, own) if len(v := part.of(attribute).values)]
        if values:
            synopsis = Synopsis.merged([Synopsis.of(v) for v in values])
            found[attribute] = Scale(synopsis, synopsis.bandwidth() if given is None else given)
    return found


def flat(numbers: Iterable[Mapping[int, Sequence[float]]]) -> Values:
    """The values of some contexts, row by row."""
    found = [
        (row, attribute, value)
        for row, mine in enumerate(numbers)
        for attribute in sorted(mine)
        for value in mine[attribute]
    ]
    rows, attributes, values = zip(*found, strict=True) if found else ((), (), ())
    return Values(np.array(rows, np.int64), np.array(attributes, np.int64), np.array(values, np.float64))
