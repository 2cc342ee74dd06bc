"""The probability of each tag given the terms of a context, learned one event at a time. No I/O.

The logarithm of a tag's probability is a sum over attributes, each with a learned weight: what the
terms of an attribute say about the tag, log(P(tag | term) / P(tag)). It is linear in the terms, as
naive Bayes is, but a weight for each attribute allows for attributes that repeat one another or
that say nothing (log-linear pooling: Genest, Zidek, Statistical Science 1986). P(tag | term) is
estimated twice, from all occurrences of the term and from the recent ones, so that the weights
decide how much a change of meaning matters. A weight for each tag that occurred with a term corrects
the sum. All weights descend the log loss of predictions that were made before the tag was known
(AdaGrad: Duchi, Hazan, Singer, JMLR 2011).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.learning import kernel
from recall.learning.arrays import grow
from recall.similarity.measures import ContextVector, Floats, Ids

# A term's share of tags is estimated as if it had occurred this many times more.
_SMOOTHING = 1.0  # events
# How much less each earlier occurrence of a term counts in the recent share: about the last 20.
_TERM_DECAY = 0.95
# The same for the share of tags among all events: about the last 50.
_TAG_DECAY = 0.98
# What each tag is counted in addition, in the share of all and of recent events.
_TAG_SMOOTHING = 0.5  # events
_RECENT_TAG_SMOOTHING = 0.3  # events
# Step size of AdaGrad, and the range of the weights.
_STEP = 0.1
_MAX_WEIGHT = 3.0
# The same for the weights of terms, and what is added to the sums of their squared gradients.
_TERM_STEP = 0.2
_TERM_MIN_SQUARE = 0.1
# Of each attribute, divided by the square root of the number of attributes.
_INITIAL_WEIGHT = 2.0
_MIN_CAPACITY = 1024

# Rows of the evidence, and weights: the share of all and of recent events, then two of each
# attribute, from all and from recent occurrences of its terms.
_FIRST_ATTRIBUTE_ROW = 2


@dataclass(frozen=True)
class TagPrediction:
    """What is known about the tag of an event.

    `evidence`: by feature and tag; the last row has the weights of terms. `log_probabilities`: by
    tag, of the tags seen so far. A tag that was never seen is not among them.
    """

    evidence: Floats
    log_probabilities: Floats

    @property
    def probabilities(self) -> Floats:
        """By tag."""
        return np.exp(self.log_probabilities)

    def error(self, tag: int) -> "PredictionError":
        """How wrong the prediction is if an event has this tag."""
        by_tag = self.probabilities
        by_tag[tag] -= 1
        return PredictionError(by_tag, self.evidence[:-1] @ by_tag)


@dataclass(frozen=True)
class PredictionError:
    """The predicted probability of each tag, minus 1 for the right one; and by feature, the slope
    of the log loss.
    """

    by_tag: Floats
    gradient: Floats

    def scale(self, amount: float) -> "PredictionError":
        """The error of an event that counts less than 1."""
        return PredictionError(amount * self.by_tag, amount * self.gradient)


class TagModel:
    """Counts of tags by term, and the weight of each attribute.

    Terms and attributes have the numbers of a vocabulary, which may grow.
    """

    def __init__(self, use_recency: bool = True) -> None:
        """`use_recency`: whether recent occurrences count separately."""
        self.use_recency = use_recency
        self.tags: list[str] = []
        """By number, in the order in which they were first seen."""
        self.event_count = 0
        self._tag_ids: dict[str, int] = {}
        self._tag_counts = np.zeros(_MIN_CAPACITY)
        self._recent_tag_counts = np.zeros(_MIN_CAPACITY)
        self._weights = np.zeros(0)
        self._square_sums = np.zeros(0)
        # By term.
        self._term_counts = np.zeros(0, dtype=np.int64)
        self._heads = np.full(0, -1, dtype=np.int64)
        # By entry, see `recall.learning.kernel`.
        self._entry_count = 0
        self._entries = np.zeros(_MIN_CAPACITY, dtype=kernel.ENTRY)

    def find_tag(self, tag: str) -> int | None:
        """The number of a tag; None if no event with it was learned."""
        return self._tag_ids.get(tag)

    def unknown_share(self, context: ContextVector) -> float:
        """The share of a context's terms that no learned event has."""
        if not len(context.terms):
            return 1.0
        self._reserve_terms(int(context.terms[-1]) + 1)
        return float(np.mean(self._term_counts[context.terms] == 0))

    @property
    def tag_counts(self) -> Floats:
        """By tag, the number of learned events."""
        return self._tag_counts[: len(self.tags)]

    @property
    def tag_shares(self) -> Floats:
        """P(tag): by tag, the smoothed share of the learned events."""
        counts = self._tag_counts[: len(self.tags)] + _TAG_SMOOTHING
        shares: Floats = counts / counts.sum()
        return shares

    def predict(self, context: ContextVector, attributes: Ids) -> TagPrediction:
        """What the terms of a context say about each tag. `attributes`: by term of the vocabulary.

        At least one event must have been learned.
        """
        evidence = self._sum_evidence(context.terms, attributes)
        logits = self._weights[: len(evidence) - 1] @ evidence[:-1] + evidence[-1]
        logits -= logits.max()
        return TagPrediction(evidence, logits - np.log(np.exp(logits).sum()))

    def _sum_evidence(self, terms: Ids, attributes: Ids) -> Floats:
        attribute_count = int(attributes.max(initial=-1)) + 1
        self._reserve_attributes(attribute_count)
        self._reserve_terms(len(attributes))
        shares = self.tag_shares
        # The last row is for the weights of terms.
        evidence = np.zeros((_FIRST_ATTRIBUTE_ROW + 2 * attribute_count + 1, len(self.tags)))
        evidence[0] = np.log(shares)
        sizes = np.zeros(attribute_count, dtype=np.int64)
        kernel.sum_evidence(
            terms,
            attributes[terms],
            shares,
            _SMOOTHING,
            _TERM_DECAY,
            self._term_counts,
            self._heads,
            self._entries,
            evidence[_FIRST_ATTRIBUTE_ROW:-1],
            evidence[-1],
            sizes,
        )
        evidence[-1] /= np.sqrt(max(len(terms), 1))
        # Several terms of one attribute are not independent: their evidence is damped.
        damping = 1 / np.sqrt(np.maximum(sizes, 1))
        evidence[_FIRST_ATTRIBUTE_ROW:-1] *= np.repeat(damping, 2)[:, None]
        if self.use_recency:
            evidence[1] = self._recent_change(shares)
        else:
            evidence[_FIRST_ATTRIBUTE_ROW + 1 : -1 : 2] = 0.0
        return evidence

    def summarize(self, attributes: Ids) -> tuple[Floats, dict[str, npt.NDArray[Any]]]:
        """What all terms say, weighted: see `kernel.summarize_entries`.

        Returns by tag what is known without any term, and the arrays for `kernel.add_evidence`.
        """
        attribute_count = int(attributes.max(initial=-1)) + 1
        self._reserve_attributes(attribute_count)
        self._reserve_terms(len(attributes))
        shares = self.tag_shares
        prior = self._weights[0] * np.log(shares)
        if self.use_recency:
            prior += self._weights[1] * self._recent_change(shares)
        first_rows = _FIRST_ATTRIBUTE_ROW + 2 * attributes
        recent_weights = self._weights[first_rows + 1] * self.use_recency
        starts = np.zeros(len(attributes) + 1, dtype=np.int64)
        bases = np.zeros(len(attributes))
        tags = np.zeros(self._entry_count, dtype=np.int32)
        values = np.zeros(self._entry_count, dtype=np.float32)
        corrections = np.zeros(self._entry_count, dtype=np.float32)
        kernel.summarize_entries(
            1 / (shares * _SMOOTHING),
            _SMOOTHING,
            _TERM_DECAY,
            self._weights[first_rows],
            recent_weights,
            self._term_counts,
            self._heads,
            self._entries,
            starts,
            bases,
            tags,
            values,
            corrections,
        )
        known_terms = self._term_counts[: len(attributes)] > 0
        return prior, {
            "known_terms": known_terms,
            "starts": starts,
            "bases": bases,
            "tags": tags,
            "values": values,
            "corrections": corrections,
        }

    def _recent_change(self, shares: Floats) -> Floats:
        """By tag: how much more frequent it is among recent events than among all, as logarithm."""
        smoothed = self._recent_tag_counts[: len(self.tags)] + _RECENT_TAG_SMOOTHING * shares
        change: Floats = np.log(smoothed / smoothed.sum()) - np.log(shares)
        return change

    def learn(self, context: ContextVector, tag: str, error: PredictionError | None) -> int:
        """Count an event, and adjust the weights; returns the number of its tag.

        `error`: of a prediction for this event, made before its tag was known; None: there is none.
        """
        tag_id = self._tag_ids.setdefault(tag, len(self.tags))
        if error is not None:
            self._adjust_weights(error.gradient)
        self._count(context.terms, tag, tag_id)
        if error is not None and len(context.terms):
            self._adjust_term_weights(context.terms, error.by_tag)
        return tag_id

    def _count(self, terms: Ids, tag: str, tag_id: int) -> None:
        if tag_id == len(self.tags):
            self.tags.append(tag)
            self._tag_counts = grow(self._tag_counts, len(self.tags))
            self._recent_tag_counts = grow(self._recent_tag_counts, len(self.tags))
        self._reserve_terms(int(terms.max(initial=-1)) + 1)
        self._entries = grow(self._entries, self._entry_count + len(terms))
        self._entry_count = kernel.add_occurrences(
            terms,
            tag_id,
            _TERM_DECAY,
            self._term_counts,
            self._heads,
            self._entries,
            self._entry_count,
        )
        self._tag_counts[tag_id] += 1
        self._recent_tag_counts *= _TAG_DECAY
        self._recent_tag_counts[tag_id] += 1
        self.event_count += 1

    def forget_events(self) -> None:
        """Forget all counts and tags. The weights are kept."""
        empty = TagModel(self.use_recency)
        empty._weights, empty._square_sums = self._weights, self._square_sums
        self.__dict__ = empty.__dict__

    def _adjust_weights(self, gradient: Floats) -> None:
        size = len(gradient)
        self._square_sums[:size] += gradient**2
        weights = self._weights[:size] - _STEP * gradient / np.sqrt(self._square_sums[:size])
        self._weights[:size] = np.clip(weights, 0.0, _MAX_WEIGHT)

    def _adjust_term_weights(self, terms: Ids, errors: Floats) -> None:
        """`errors`: by tag; none of tags that were first seen after the prediction."""
        scaled = np.zeros(len(self.tags))
        scaled[: len(errors)] = errors / np.sqrt(len(terms))
        kernel.adjust_weights(
            terms,
            scaled,
            _TERM_STEP,
            _TERM_MIN_SQUARE,
            self._heads,
            self._entries,
        )

    def _reserve_attributes(self, attribute_count: int) -> None:
        missing = _FIRST_ATTRIBUTE_ROW + 2 * attribute_count - len(self._weights)
        if missing <= 0:
            return
        weights = np.zeros(missing)
        weights[::2] = _INITIAL_WEIGHT / np.sqrt(max(attribute_count, 1))
        if not len(self._weights):
            weights[0] = 1.0
        self._weights = np.concatenate([self._weights, weights])
        self._square_sums = np.concatenate([self._square_sums, np.ones(missing)])

    def _reserve_terms(self, width: int) -> None:
        self._term_counts = grow(self._term_counts, width)
        self._heads = grow(self._heads, width, fill=-1)

    def term_evidence(self, context: ContextVector, attributes: Ids, tag: int) -> Floats:
        """By term of a context: what it adds to the logarithm of a tag's probability."""
        contributions = np.zeros(len(context.terms))
        sizes = np.bincount(attributes[context.terms], minlength=1)
        for position, term in enumerate(context.terms):
            single = ContextVector(context.terms[position : position + 1], np.ones(1))
            column = self._sum_evidence(single.terms, attributes)[:, tag]
            rows = slice(_FIRST_ATTRIBUTE_ROW, len(column) - 1)
            damping = 1 / np.sqrt(sizes[attributes[term]])
            from_counts = damping * (self._weights[rows] @ column[rows])
            contributions[position] = from_counts + column[-1] / np.sqrt(len(context.terms))
        return contributions

    # Storing

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as arrays; `from_arrays` is the inverse. Terms keep their numbers."""
        entries = {}
        for name in kernel.ENTRY.names or ():
            entries[name] = np.ascontiguousarray(self._entries[name][: self._entry_count])
        return {
            "tags": np.array(self.tags, dtype=np.str_),
            "tag_counts": self._tag_counts[: len(self.tags)],
            "recent_tag_counts": self._recent_tag_counts[: len(self.tags)],
            "weights": self._weights,
            "square_sums": self._square_sums,
            "term_counts": self._term_counts,
            "heads": self._heads,
            **entries,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], use_recency: bool) -> "TagModel":
        """Restore what `to_arrays` returned."""
        model = cls(use_recency)
        model.tags = arrays["tags"].tolist()
        model._tag_ids = {tag: number for number, tag in enumerate(model.tags)}
        model._tag_counts = arrays["tag_counts"]
        model._recent_tag_counts = arrays["recent_tag_counts"]
        model.event_count = int(model._tag_counts.sum())
        model._weights, model._square_sums = arrays["weights"], arrays["square_sums"]
        model._term_counts, model._heads = arrays["term_counts"], arrays["heads"]
        model._entry_count = len(arrays["links"])
        model._entries = np.zeros(model._entry_count, dtype=kernel.ENTRY)
        for name in kernel.ENTRY.names or ():
            model._entries[name] = arrays[name]
        return model
