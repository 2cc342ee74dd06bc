"""The models of the measure `learned`: which one a comparison uses, loaded from the database."""

from collections.abc import Callable
from functools import partial

from cachetools import LRUCache

import sql
from recall.errors import ModelExpired
from recall.learning import MODEL_FORMAT, LearnedScorer, StoredModel, name_place
from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity import CorpusEvent, EventScorer
from recall.similarity.measures import LEARNED_MEASURE
from sql.similarity import LearnedModelGateway

# Models in memory. Tasks of one recall nearly always use the same one.
_CACHE_SIZE = 8
_END_OF_TIME = 2**63 - 1  # microseconds


class LearnedModels:
    """The stored models."""

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = LearnedModelGateway(connection)
        self._models: LRUCache[int, StoredModel] = LRUCache(_CACHE_SIZE)

    def find_usable(
        self, rule: str, version: str, recall: str, question: SimilarQuestion, event: RecallEvent
    ) -> int | None:
        """The newest model that has learned only from events older than `event` by the gap.

        None: there is none, or the question has another measure.
        """
        if question.measure != LEARNED_MEASURE:
            return None
        before = event.ts - max(question.gap, 1) + 1
        row = self._gateway.find_usable((rule, version, recall), before=before, format=MODEL_FORMAT)
        return None if row is None else row.id

    def load_newest(self, rule: str, version: str, recall: str) -> StoredModel | None:
        """The newest model of a recall; None: there is none."""
        row = self._gateway.find_usable(
            (rule, version, recall), before=_END_OF_TIME, format=MODEL_FORMAT
        )
        return None if row is None else self.load(row.id)

    def load(self, model_id: int) -> StoredModel:
        """A model. Raises `ModelExpired`."""
        model = self._models.get(model_id)
        if model is None:
            arrays = self._gateway.get_arrays(model_id)
            if arrays is None:
                raise ModelExpired(f"the learned model {model_id} was deleted by retention")
            try:
                model = StoredModel.from_bytes(arrays)
            except ValueError as error:
                raise ModelExpired(
                    f"the learned model {model_id} is of an older version"
                ) from error
            self._models[model_id] = model
        return model

    def scorer_factory(
        self, model_id: int | None, event: RecallEvent
    ) -> Callable[[CorpusEvent], EventScorer] | None:
        """Builds what scores past events for an event; None without a model.

        Raises `ModelExpired`.
        """
        if model_id is None:
            return None
        return partial(
            LearnedScorer, self.load(model_id), place_name=name_place(event.key.values())
        )
