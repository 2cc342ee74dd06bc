"""A logistic regression that learns from each tag as it becomes known, in pure NumPy.

Its weights, one for each term and tag, descend the log loss of each prediction (AdaGrad: Duchi,
Hazan, Singer, JMLR 2011). Classifiers that are fitted again from time to time know nothing of the
newest tags; where the tags drift, this one is better by far.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from recall.relevance.rankers import Floats

_STEP = 1.0
_MIN_SQUARE = 0.1  # added to the sums of squared gradients


class OnlineLogisticRegression:
    """`partial_fit` and `predict_proba` as scikit-learn has them; terms and tags may be new."""

    def __init__(self) -> None:
        self.n_features_in_ = 0
        self._tags: list[str] = []
        self._numbers: dict[str, int] = {}
        self._weights = np.zeros((0, 0))
        self._squares = np.zeros((0, 0))

    @property
    def classes_(self) -> np.ndarray:
        """The tags, in the order of `predict_proba`."""
        return np.array(self._tags)

    def partial_fit(self, rows: csr_array, tags: Sequence[str]) -> None:
        """Learn the tags of some contexts, one after the other."""
        self.n_features_in_ = max(self.n_features_in_, rows.shape[1])
        for row, tag in enumerate(tags):
            if tag not in self._numbers:
                self._numbers[tag] = len(self._tags)
                self._tags.append(tag)
            self._reserve()
            self._learn(rows.indices[rows.indptr[row] : rows.indptr[row + 1]], self._numbers[tag])

    def predict_proba(self, rows: csr_array) -> Floats:
        """By row and tag, the probability."""
        indices = np.split(rows.indices, rows.indptr[1:-1])
        return np.array([self._predict(terms) for terms in indices])

    def _predict(self, terms: np.ndarray) -> Floats:
        logits = self._weights[terms, : len(self._tags)].sum(axis=0) / np.sqrt(max(len(terms), 1))
        exponentials = np.exp(logits - logits.max())
        shares: Floats = exponentials / exponentials.sum()
        return shares

    def _learn(self, terms: np.ndarray, tag: int) -> None:
        errors = self._predict(terms)
        errors[tag] -= 1
        slope = errors / np.sqrt(max(len(terms), 1))
        count = len(errors)
        self._squares[terms, :count] += slope**2
        steps = _STEP * slope / np.sqrt(_MIN_SQUARE + self._squares[terms, :count])
        self._weights[terms, :count] -= steps

    def _reserve(self) -> None:
        """Make room for all terms and tags."""
        width, height = self._weights.shape
        if self.n_features_in_ <= width and len(self._tags) <= height:
            return
        shape = max(self.n_features_in_, 2 * width), max(len(self._tags), 2 * height)
        for name in ("_weights", "_squares"):
            grown = np.zeros(shape, dtype=np.float32)
            grown[:width, :height] = getattr(self, name)
            setattr(self, name, grown)
