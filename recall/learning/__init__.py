"""Similarity learned from resolutions: which past event has the tag that a new one will have."""

from recall.learning.build import BuiltModel, TrainingEvent, build_model
from recall.learning.episode_corpus import EpisodeCorpus
from recall.learning.episodes import number_episodes
from recall.learning.event_scorer import LearnedScorer
from recall.learning.learned_model import (
    MIN_EPISODES,
    LearnedModel,
    ResolutionForecast,
    TagIds,
)
from recall.learning.learner import Learner
from recall.learning.resolutions import GroupedEvent, Resolution, find_usable_times
from recall.learning.stored_model import MODEL_FORMAT, StoredModel, name_place

__all__ = [
    "BuiltModel",
    "GroupedEvent",
    "EpisodeCorpus",
    "TrainingEvent",
    "build_model",
    "LearnedModel",
    "LearnedScorer",
    "Learner",
    "MIN_EPISODES",
    "MODEL_FORMAT",
    "Resolution",
    "ResolutionForecast",
    "StoredModel",
    "TagIds",
    "find_usable_times",
    "name_place",
    "number_episodes",
]
