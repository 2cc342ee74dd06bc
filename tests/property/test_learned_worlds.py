"""`learned` in synthetic worlds of known causes, small versions of those of `benchmarks.worlds`."""

import numpy as np
import pytest

from benchmarks.worlds.evaluation import evaluate_world
from benchmarks.worlds.generator import World, draw_world

WORLDS = [
    World("bursts", 150, burst=20),
    World("shift", 150, burst=10, shift=True),
    World("rare causes", 100, burst=4, rare=True, wrong_share=0.1),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_learned_is_not_below_attributes(world: World) -> None:
    outcomes = evaluate_world(draw_world(world, seed=1))
    rows = outcomes.resolved_episodes >= 10
    for metric in ("p1", "p10"):
        differences = outcomes.values[f"{metric} learned"] - outcomes.values[f"{metric} attributes"]
        ranked = differences[rows & ~np.isnan(differences)]
        half_width = 1.96 * ranked.std() / np.sqrt(max(len(np.unique(outcomes.episodes[rows])), 1))
        assert ranked.mean() >= -half_width, metric
