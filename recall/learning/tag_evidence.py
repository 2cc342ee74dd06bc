"""What the terms of a tag model that no longer changes say about tags, ready to be added up. No I/O."""

from collections.abc import Mapping

import numpy as np

from recall.learning import kernel
from recall.learning.tag_model import TagModel
from recall.similarity.measures import ContextVector, Floats, Ids


class TagEvidence:
    """By term and tag, what the term adds to the logarithm of the tag's probability.

    The same as `TagModel.predict`, but the logarithms of counts are computed once.
    """

    def __init__(self, model: TagModel, attributes: Ids) -> None:
        """`attributes`: by term of the vocabulary."""
        self._attributes = attributes
        self._attribute_count = int(attributes.max(initial=-1)) + 1
        self._prior, arrays = model.summarize(attributes)
        self._arrays: Mapping[str, Floats | Ids] = arrays

    def log_probabilities(self, context: ContextVector) -> Floats:
        """By tag. Terms that are not in the vocabulary say nothing."""
        terms = context.terms[context.terms < len(self._attributes)]
        logits = self._prior.copy()
        kernel.add_evidence(
            terms,
            self._attributes,
            self._attribute_count,
            len(context.terms),
            **self._arrays,
            logits=logits,
        )
        logits -= logits.max()
        log_probabilities: Floats = logits - np.log(np.exp(logits).sum())
        return log_probabilities
