"""Numeric attributes: scores are those of the formula; what the histogram leaves out is bounded, and how it was filled
does not show."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent, make_corpus_event
from recall.similarity.index import Index
from recall.similarity.measure import MEASURES
from recall.similarity.numeric import MAX_BINS, AttributeScale, Histogram

_VALUES = arrays.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6))


def _exact(history: np.ndarray, values: np.ndarray, h: float) -> np.ndarray:
    return np.exp(-0.5 * ((history[None, :] - values[:, None]) / h) ** 2).sum(axis=1)


@settings(max_examples=100, deadline=None)
@given(_VALUES, st.floats(1e-3, 1e5))
def test_its_error_is_bounded(values: np.ndarray, h: float) -> None:
    made = Histogram.from_values(values)
    bound = len(values) * ((made.bin_width / h) ** 2 / 8 + 1e-13) + 1e-9
    assert np.abs(made.kernel_sums(values, h) - _exact(values, values, h)).max() <= bound


def test_its_error_is_bounded_where_bins_are_shared() -> None:
    """Thirty times more values than bins, with outliers; an IDF is right to three digits."""
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(50, 10, 100_000), rng.normal(5000, 1, 20_000), [1e6, -1e6]])
    made = Histogram.from_values(values)
    assert len(made.keys) <= MAX_BINS
    h, asked = made.bandwidth(), np.concatenate([rng.normal(50, 10, 50), [5000.0, 1e6]])
    exact = _exact(values, asked, h)
    assert (
        np.abs(made.kernel_sums(asked, h) - exact).max()
        <= len(values) * (made.bin_width / h) ** 2 / 8
    )
    idf = np.log10(len(values) / np.maximum(exact, 1))
    assert np.abs(AttributeScale(made, h).weights(asked) - idf).max() < 1e-3


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 20_000), st.integers(1, 5))
def test_parts_give_what_all_gives(seed: int, count: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_t(2, count) * 10.0 ** rng.integers(-3, 4)
    whole = Histogram.from_values(values)
    merged = Histogram.merge(
        [Histogram.from_values(part) for part in np.array_split(rng.permutation(values), parts)]
    )
    assert (merged.exponent, merged.keys.tolist()) == (whole.exponent, whole.keys.tolist())
    assert (
        np.allclose(merged.sums, whole.sums, rtol=1e-12)
        and merged.counts.tolist() == whole.counts.tolist()
    )


def test_silvermans_rule() -> None:
    values = np.random.default_rng(1).normal(0, 2, 10_000)
    quartiles = np.quantile(values, [0.25, 0.75])
    expected = (
        0.9 * min(values.std(ddof=1), (quartiles[1] - quartiles[0]) / 1.34) * len(values) ** -0.2
    )
    assert abs(Histogram.from_values(values).bandwidth() / expected - 1) < 0.01
    assert Histogram.from_values(np.full(10, 7.0)).bandwidth() > 0


def _by_the_formula(world: list[CorpusEvent], event: CorpusEvent, h: float) -> dict[str, float]:
    """Every score, term by term and value by value."""
    counted = [*world, event]

    def idf(term: str) -> float:
        return math.log10(len(counted) / max(sum(term in one.term_counts for one in counted), 1))

    values = [value for one in counted for found in one.numeric_values.values() for value in found]

    def weight(value: float) -> float:
        return math.log10(
            len(values) / sum(math.exp(-0.5 * ((other - value) / h) ** 2) for other in values)
        )

    def product(one: CorpusEvent, other: CorpusEvent) -> float:
        terms = sum(
            one.term_counts[term] * other.term_counts[term] * idf(term) ** 2
            for term in one.term_counts.keys() & other.term_counts
        )
        mine, theirs = (side.numeric_values.get(0, []) for side in (one, other))
        near = (
            weight(a) * weight(b) * math.exp(-0.5 * ((a - b) / h) ** 2)
            for a in mine
            for b in theirs
        )
        return terms + sum(near)

    norms = {one.eid: product(one, one) * product(event, event) for one in world}
    scores = {
        one.eid: product(one, event) / math.sqrt(norms[one.eid]) if norms[one.eid] else 0.0
        for one in world
    }
    return {eid: score for eid, score in scores.items() if score > 0}


@pytest.mark.parametrize("seed", range(10))
def test_scores_are_those_of_the_formula(seed: int) -> None:
    """Terms and numbers together, some contexts without a number, some with several, in chunks of segments."""
    rng = random.Random(seed)

    def event(number: int, ts: int) -> CorpusEvent:
        rows = [
            {
                "slice": f"s{rng.randint(0, 5)}",
                "cpu": rng.choice([None, f"{rng.gauss(50, 20):.2f}"]),
            }
        ]
        rows += [{"cpu": f"{rng.gauss(50, 20):.2f}"} for _ in range(rng.randint(0, 2))]
        return make_corpus_event(ts, f"e{number:03}", number, {"own": rows}, ["own"], {"cpu": 5.0})

    world = [event(number, rng.randint(0, 100)) for number in range(1, 40)]
    index = Index({"cpu": 5.0})
    for one in world:
        index.add(one.ts // 30, [one])
    asked = Comparison(
        query := event(39, 200),
        index.pin_counts(query),
        MEASURES["tfidf"],
        restore_top(50, []),
        200,
        39,
    )
    spans = [(None, 30), (30, 60), (60, 200)]
    bounds = index.score_bounds(asked, spans)
    index.score([asked] * 3, spans)
    found = {hit.event[1]: hit.score for hit in asked.top.hits}
    assert found == pytest.approx(_by_the_formula(world, query, 5.0), abs=1e-9)
    for one in world:
        assert found.get(one.eid, 0.0) <= bounds[min(one.ts // 30, 2)] + 1e-9


def test_what_is_no_number_is_a_term() -> None:
    found = make_corpus_event(
        0,
        "e",
        1,
        {"own": [{"cpu": "7.5", "n": "x"}, {"cpu": "nan"}, {"cpu": None}]},
        ["own"],
        {"cpu": None},
    )
    assert (found.numeric_values, found.term_counts) == ({0: [7.5]}, {"n=x": 1, "cpu=nan": 1})
