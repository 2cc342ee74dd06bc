"""Classifiers that share nothing with `learned`, as rankers: past alerts by the probability of their tag.

They are trained on what `learned` may use: the tags of the candidates. So they say how well the
tag can be predicted from the terms of a context.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.naive_bayes import MultinomialNB

from benchmarks.online_logistic import OnlineLogisticRegression
from recall.relevance.rankers import CandidateSet, Floats
from recall.similarity.measures import SparseRows

# A classifier is fitted again when this share of tags has become known.
_GROWTH = 0.25
_MIN_TAGS = 2
# How often one that learns tag by tag sees each tag, if it begins anew for each alert.
_PASSES = 5
# Added to the probability of a tag, so that each candidate is a hit; the newest first.
_SMALLEST_SCORE = 1e-9

CLASSIFIERS: Mapping[str, Callable[[], Any]] = {
    "naive Bayes": lambda: MultinomialNB(alpha=0.05),
    "logistic regression": OnlineLogisticRegression,
    # With hundreds of tags, trees of more leaves take gigabytes.
    "extra trees": lambda: ExtraTreesClassifier(100, max_leaf_nodes=1000, random_state=0),
}


class ClassifierRanker:
    """Ranks by a classifier of terms, trained on the candidates' tags."""

    def __init__(
        self, make_classifier: Callable[[], Any], tags: Mapping[str, str], *, leave_one_out: bool
    ) -> None:
        """`leave_one_out`: whether each alert has training data of its own."""
        self._make_classifier = make_classifier
        self._tags = tags
        self._leave_one_out = leave_one_out
        self._fitted: dict[str, tuple[int, Any]] = {}
        """By event type: how many tags were known, and the classifier fitted to them."""
        self.correct: list[bool] = []
        """By ranked alert: whether its most probable tag was the right one."""

    def __call__(self, candidate_set: CandidateSet) -> Floats:
        """The scores of the candidates."""
        alert, past = candidate_set.alert, candidate_set.candidates
        order = np.arange(1, len(past) + 1) / len(past)
        scores: Floats = _SMALLEST_SCORE * order
        tags = np.array([self._tags.get(candidate.event_id, "") for candidate in past])
        has_tag = tags != ""
        has_tag[candidate_set.excluded_rows] = False
        model = self._fit(candidate_set, tags, has_tag)
        if model is None:
            self.correct.append(False)
            return scores
        terms = candidate_set.context.terms
        terms = terms[terms < model.n_features_in_]
        starts = np.array([0, len(terms)], dtype=np.int32)
        row = csr_array((np.ones(len(terms)), terms, starts), shape=(1, model.n_features_in_))
        probabilities = model.predict_proba(row)[0]
        best = model.classes_[int(np.argmax(probabilities))]
        self.correct.append(bool(best == self._tags.get(alert.event_id)))
        by_tag = dict(zip(model.classes_.tolist(), probabilities.tolist(), strict=True))
        scores[has_tag] += [by_tag.get(tag, 0.0) for tag in tags[has_tag].tolist()]
        return scores

    def _fit(
        self,
        candidate_set: CandidateSet,
        tags: npt.NDArray[np.str_],
        has_tag: npt.NDArray[np.bool_],
    ) -> Any | None:
        """None: fewer than two tags are known."""
        event_type = candidate_set.alert.event_type
        count, model = self._fitted.get(event_type, (0, None))
        known_count = int(has_tag.sum())
        if self._make_classifier is OnlineLogisticRegression:
            rows = np.flatnonzero(has_tag)
            if self._leave_one_out:
                rows, count, model = np.tile(rows, _PASSES), 0, None
            model = model or OnlineLogisticRegression()
            self._learn(model, candidate_set, tags, rows[count:])
            self._fitted[event_type] = known_count, model
            return model if known_count else None
        if model is None or self._leave_one_out or known_count >= count * (1 + _GROWTH):
            if len(set(tags[has_tag].tolist())) < _MIN_TAGS:
                return None
            matrix = _to_matrix(candidate_set.contexts)[has_tag]
            model = self._make_classifier().fit(matrix, tags[has_tag])
            self._fitted[event_type] = known_count, model
        return model

    def _learn(
        self,
        model: OnlineLogisticRegression,
        candidate_set: CandidateSet,
        tags: npt.NDArray[np.str_],
        rows: npt.NDArray[np.intp],
    ) -> None:
        """`rows`: the candidates to learn from."""
        if len(rows):
            model.partial_fit(_to_matrix(candidate_set.contexts)[rows], tags[rows].tolist())


def _to_matrix(rows: SparseRows) -> csr_array:
    """Which terms each context has."""
    ones = np.ones(len(rows.terms))
    return csr_array((ones, rows.terms, rows.starts), shape=(len(rows), rows.width))
