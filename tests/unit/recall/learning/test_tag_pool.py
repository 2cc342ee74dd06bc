"""Distributions of tags that are pooled, with weights by how much each has predicted."""

import numpy as np
import pytest

from recall.learning.tag_pool import TagPool

TAGS = 3


def draw_distributions(rng: np.random.Generator, tag: int) -> np.ndarray:
    """Two predictors that are right independently of each other, and one that knows nothing."""
    rows = []
    for _ in range(2):
        named = tag if rng.random() < 0.8 else int(rng.integers(TAGS))
        rows.append(np.where(np.arange(TAGS) == named, 0.8, 0.1))
    return np.array([*rows, rng.dirichlet(np.ones(TAGS))])


def learn(pool: TagPool, episodes: int) -> list[float]:
    """The log loss of the pool, and of each predictor, of the last half of the episodes."""
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(episodes):
        tag = int(rng.integers(TAGS))
        distributions = draw_distributions(rng, tag)
        pooled = pool.pool(distributions)
        losses.append(-np.log([pooled[tag], *distributions[:, tag]]))
        pool.learn(distributions, pooled, tag)
    means: list[float] = np.mean(losses[episodes // 2 :], axis=0).tolist()
    return means


def test_pool_predicts_better_than_each_predictor() -> None:
    pooled, *single = learn(TagPool(np.array([1.0, 0.0, 0.0])), 200)
    assert pooled < 0.8 * min(single)


def test_weight_of_a_predictor_that_knows_nothing_falls() -> None:
    pool = TagPool(np.full(3, 0.5))
    learn(pool, 200)
    assert abs(pool.weights[2]) < 0.1 < pool.weights[:2].min()


def test_probabilities_add_up_to_one_and_no_predictor_rules_a_tag_out() -> None:
    pool = TagPool(np.array([0.7, 0.3]))
    pooled = pool.pool(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert pooled.sum() == pytest.approx(1)
    assert pooled.min() > 0
