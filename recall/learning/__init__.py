"""Similarity learned from resolutions: which past event has the tag that a new one will have."""

from recall.learning.build import BuiltModel, TrainingEvent, build_model
from recall.learning.episode_corpus import EpisodeCorpus
from recall.learning.episodes import number_episodes
from recall.learning.event_scorer import LearnedScorer
from recall.learning.learned_model import LearnedModel, TagIds
from recall.learning.learner import Learner
from recall.learning.resolution_forecast import MIN_EPISODES, ResolutionForecast
from recall.learning.resolutions import GroupedEvent, Resolution, find_usable_times
from recall.learning.stored_model import MODEL_FORMAT, StoredModel, name_place
from recall.learning.switching_mixture import SwitchingMixture
from recall.learning.weight_fit import fit_logistic, sigmoid

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
    "SwitchingMixture",
    "fit_logistic",
    "number_episodes",
    "sigmoid",
]
