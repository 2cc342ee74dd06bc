"""Numeric attributes: histograms are exact within their error bound, scores follow the formula."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from archiver.time_range import TimeRange
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent, make_corpus_event
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES
from recall.similarity.numeric import MAX_BINS, AttributeScale, Histogram
from tests.examples import examples

_VALUES = arrays.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6))


def _exact_kernel_sums(history: np.ndarray, values: np.ndarray, bandwidth: float) -> np.ndarray:
    distances = (history[None, :] - values[:, None]) / bandwidth
    return np.exp(-0.5 * distances**2).sum(axis=1)


@examples(100)
@given(_VALUES, st.floats(1e-3, 1e5))
def test_error_of_the_histogram_is_bounded(values: np.ndarray, bandwidth: float) -> None:
    histogram = Histogram.from_values(values)
    relative_width = histogram.bin_width / bandwidth
    # The sum of a bin is rounded with each value.
    rounding = len(values) * np.finfo(np.float64).eps * np.abs(values).max() / bandwidth
    bound = len(values) * (relative_width**2 / 8 + rounding + 1e-13) + 1e-9
    sums = histogram.kernel_sums(values, bandwidth)
    assert np.abs(sums - _exact_kernel_sums(values, values, bandwidth)).max() <= bound


def test_error_is_bounded_with_many_values_in_each_bin() -> None:
    """Thirty times more values than bins, with outliers; an IDF is right to three digits."""
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(50, 10, 100_000), rng.normal(5000, 1, 20_000), [1e6, -1e6]])
    histogram = Histogram.from_values(values)
    assert len(histogram.keys) <= MAX_BINS
    bandwidth = histogram.bandwidth()
    query_values = np.concatenate([rng.normal(50, 10, 50), [5000.0, 1e6]])
    exact = _exact_kernel_sums(values, query_values, bandwidth)
    errors = np.abs(histogram.kernel_sums(query_values, bandwidth) - exact)
    assert errors.max() <= len(values) * (histogram.bin_width / bandwidth) ** 2 / 8
    idf = np.log10(len(values) / np.maximum(exact, 1))
    weights = AttributeScale(histogram, bandwidth).weights(query_values)
    assert np.abs(weights - idf).max() < 1e-3


@examples(50)
@given(st.integers(0, 2**32), st.integers(2, 20_000), st.integers(1, 5))
def test_merged_histogram_equals_that_of_all_values(seed: int, count: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_t(2, count) * 10.0 ** rng.integers(-3, 4)
    expected = Histogram.from_values(values)
    value_parts = np.array_split(rng.permutation(values), min(parts, count))
    merged = Histogram.merge([Histogram.from_values(part) for part in value_parts])
    assert merged.exponent == expected.exponent
    assert merged.keys.tolist() == expected.keys.tolist()
    assert merged.counts.tolist() == expected.counts.tolist()
    assert np.allclose(merged.sums, expected.sums, rtol=1e-12)


@pytest.mark.xfail(
    strict=True,
    reason="a part without a value other than 0 has bins of 2**-52, however small the others are",
)
@pytest.mark.parametrize("part", [[], [0.0]])
def test_part_without_nonzero_values_does_not_widen_the_bins(part: list[float]) -> None:
    values = [0.001, 0.002]
    parts = [Histogram.from_values(np.array(part)), Histogram.from_values(np.array(values))]
    expected = Histogram.from_values(np.array([*part, *values]))
    assert Histogram.merge(parts).exponent == expected.exponent


def test_bandwidth_follows_silvermans_rule() -> None:
    values = np.random.default_rng(1).normal(0, 2, 10_000)
    lower, upper = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(ddof=1), (upper - lower) / 1.34)
    expected = 0.9 * spread * len(values) ** -0.2
    assert abs(Histogram.from_values(values).bandwidth() / expected - 1) < 0.01


def test_bandwidth_of_equal_values_is_positive() -> None:
    assert Histogram.from_values(np.full(10, 7.0)).bandwidth() > 0


def _scores_by_formula(
    events: list[CorpusEvent], query: CorpusEvent, bandwidth: float
) -> dict[str, float]:
    """The scores above 0, term by term and value by value."""
    counted = [*events, query]
    values = []
    for event in counted:
        for attribute_values in event.numeric_values.values():
            values += attribute_values

    def nearness(left: float, right: float) -> float:
        return math.exp(-0.5 * ((left - right) / bandwidth) ** 2)

    def idf(term: str) -> float:
        frequency = sum(term in event.term_counts for event in counted)
        return math.log10(len(counted) / max(frequency, 1))

    def value_weight(value: float) -> float:
        return math.log10(len(values) / sum(nearness(past, value) for past in values))

    def product(left: CorpusEvent, right: CorpusEvent) -> float:
        total = 0.0
        for term in left.term_counts.keys() & right.term_counts:
            total += left.term_counts[term] * right.term_counts[term] * idf(term) ** 2
        for a in left.numeric_values.get(0, []):
            for b in right.numeric_values.get(0, []):
                total += value_weight(a) * value_weight(b) * nearness(a, b)
        return total

    scores = {}
    for event in events:
        squared_norms = product(event, event) * product(query, query)
        if squared_norms:
            scores[event.eid] = product(event, query) / math.sqrt(squared_norms)
    return {eid: score for eid, score in scores.items() if score > 0}


def _draw_event(rng: random.Random, sequence: int, ts: int) -> CorpusEvent:
    """Some contexts have no number and some have several."""
    first_row = {
        "slice": f"s{rng.randint(0, 5)}",
        "cpu": rng.choice([None, f"{rng.gauss(50, 20):.2f}"]),
    }
    rows = [first_row]
    for _ in range(rng.randint(0, 2)):
        rows.append({"cpu": f"{rng.gauss(50, 20):.2f}"})
    contexts = {"own": rows}
    return make_corpus_event(ts, f"e{sequence:03}", sequence, contexts, ["own"], {"cpu": 5.0})


@pytest.mark.parametrize("seed", range(10))
def test_scores_of_terms_and_numbers_follow_the_formula(seed: int) -> None:
    rng = random.Random(seed)
    index = Index({"cpu": 5.0})
    events = []
    for sequence in range(1, 40):
        event = _draw_event(rng, sequence, rng.randint(0, 100))
        events.append(event)
        index.add(event.ts // 30, [event])
    query = _draw_event(rng, 39, 200)
    comparison = Comparison(
        event=query,
        pinned_counts=index.pin_counts(query),
        measure=MEASURES["tfidf"],
        top=restore_top(50, []),
        before_ts=200,
        max_sequence=39,
    )
    spans = [TimeRange(None, 30), TimeRange(30, 60), TimeRange(60, 200)]
    bounds = index.score_bounds(comparison, spans)
    index.score([comparison] * 3, spans)
    scores = {hit.event[1]: hit.score for hit in comparison.top.hits}
    assert scores == pytest.approx(_scores_by_formula(events, query, 5.0), abs=1e-9)
    for event in events:
        bound = bounds[min(event.ts // 30, 2)]
        assert scores.get(event.eid, 0.0) <= bound + 1e-9
