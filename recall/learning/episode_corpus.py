"""Events to learn from, with E and C_k by episode. No I/O."""

from archiver.times import Micros
from recall.learning.episodes import Episodes
from recall.similarity.measures import ContextVector, Corpus


class EpisodeCorpus(Corpus):
    """A corpus in which events with equal terms count once in each episode.

    When an event occurs, its tag is not known: only its terms tell which episode it belongs to.
    """

    def __init__(self, gap: Micros) -> None:
        super().__init__()
        self._episodes = Episodes(gap)

    def _is_counted(self, ts: Micros, context: ContextVector) -> bool:
        terms = context.terms.tobytes()
        return self._episodes.add(terms, ts, terms) > 0
