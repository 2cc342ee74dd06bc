"""What terms say, added up from computed logarithms."""

import numpy as np
import pytest

from recall.learning.tag_evidence import TagEvidence
from recall.learning.tag_model import TagModel
from recall.similarity.measures import Vocabulary


@pytest.mark.parametrize("use_recency", [True, False])
def test_evidence_predicts_as_the_model(use_recency: bool) -> None:
    rng = np.random.default_rng(4)
    model, vocabulary = TagModel(use_recency), Vocabulary()
    contexts = []
    for _ in range(300):
        tag = int(rng.integers(8))
        terms = {f"tells=t{tag * 3 + int(rng.integers(5))}": 1}
        terms |= {f"word=w{int(rng.zipf(1.5)) % 50}": 1 for _ in range(6)}
        context = vocabulary.encode(terms)
        error = None
        if model.find_tag(f"tag {tag}") is not None:
            error = model.predict(context, vocabulary.attributes).error(tag_id(model, tag))
        model.learn(context, f"tag {tag}", error)
        contexts.append(context)
    evidence = TagEvidence(model, vocabulary.attributes.copy())
    contexts.append(vocabulary.encode({"word=new": 1, "other=new": 1, "tells=t1": 1}))
    for context in contexts[-20:]:
        expected = model.predict(context, vocabulary.attributes).log_probabilities
        np.testing.assert_allclose(evidence.log_probabilities(context), expected, atol=1e-4)


def tag_id(model: TagModel, tag: int) -> int:
    found = model.find_tag(f"tag {tag}")
    assert found is not None
    return found
