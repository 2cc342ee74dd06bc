"""Random contexts with tags: terms by Zipf's law, some of which tell the tag."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.contexts import VOCABULARY_SIZE, TermIds, draw_contexts

TAGS = 500
_ATTRIBUTES = 8
_TERMS_BY_TAG = 20
# A context has some of these terms of its tag; further terms are those of `draw_contexts`.
_TELLING_TERMS = 2
_WRONG_SHARE = 0.2  # of contexts whose terms are those of another tag


@dataclass(frozen=True)
class TaggedContexts:
    """Contexts: the number of terms of each, the terms of all, and the tag of each."""

    sizes: npt.NDArray[np.int64]
    terms: TermIds
    tags: npt.NDArray[np.int64]

    def rows(self) -> list[TermIds]:
        """The terms of each context."""
        return np.split(self.terms, np.cumsum(self.sizes)[:-1])


def name_term(term: int) -> str:
    """A term by its number; consecutive ones belong to different attributes."""
    return f"a{term % _ATTRIBUTES}=t{term}"


def draw_tagged_contexts(rng: np.random.Generator, count: int) -> TaggedContexts:
    """Contexts of about 40 distinct terms. The n-th most frequent tag has 1/n of the first's share.

    Terms of tags are among the rare half of the vocabulary.
    """
    shares = 1 / np.arange(1, TAGS + 1)
    tags = rng.choice(TAGS, count, p=shares / shares.sum())
    shown = np.where(rng.random(count) < _WRONG_SHARE, rng.integers(TAGS, size=count), tags)
    offsets = rng.integers(_TERMS_BY_TAG, size=(count, _TELLING_TERMS))
    telling = VOCABULARY_SIZE // 2 + shown[:, np.newaxis] * _TERMS_BY_TAG + offsets
    sizes, terms = draw_contexts(rng, count)
    rows = np.repeat(np.arange(count), sizes)
    # The last terms make room for those of the tag.
    position = np.arange(len(terms)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_kept = position < np.repeat(sizes, sizes) - _TELLING_TERMS
    all_rows = np.concatenate([rows[is_kept], np.repeat(np.arange(count), _TELLING_TERMS)])
    all_terms = np.concatenate([terms[is_kept].astype(np.int64), telling.ravel()])
    keys = np.unique(all_rows * VOCABULARY_SIZE + all_terms)
    sizes = np.bincount(keys // VOCABULARY_SIZE, minlength=count)
    return TaggedContexts(sizes, (keys % VOCABULARY_SIZE).astype(np.int32), tags)
