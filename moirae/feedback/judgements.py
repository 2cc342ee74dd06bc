"""Feedback on past events: tags of their resolutions, and judgements of single hits. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from recall.relevance import AlertContext, CandidateSet, Gains

# The gain of a past event of the same kind.
_SAME_KIND_GAIN = 1
# The gain of a past event that was judged to help.
_JUDGED_GAIN = 2


@dataclass(frozen=True)
class JudgedCorpus:
    """Events with their contexts and the feedback on them."""

    name: str
    alerts: Sequence[AlertContext]
    kinds: Mapping[str, str]
    """By event ID, where known: what the event was, such as the tag of its resolution."""
    judgements: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    """By event ID and past event ID: whether the past event helps."""
    gap: timedelta = timedelta(0)
    """How much older past events must be."""
    measure: str = "tfidf"
    k: int = 10
    """The number of hits of an answer."""

    def is_same_kind(self, event: str, past: str) -> bool | None:
        """Whether two events are of the same kind; None: unknown. A judgement takes precedence."""
        if (event, past) in self.judgements:
            return self.judgements[event, past]
        if event not in self.kinds or past not in self.kinds:
            return None
        return self.kinds[event] == self.kinds[past]

    def gains_of(self, candidate_set: CandidateSet) -> Gains:
        """The gains of the candidates that help, by event ID."""
        history = candidate_set.history
        excluded_ids = {history.alerts[row].event_id for row in candidate_set.excluded_rows}
        event = candidate_set.alert.event_id
        kind = self.kinds.get(event)
        gains = {}
        for past in candidate_set.candidates:
            if past.event_id in excluded_ids:
                continue
            judgement = self.judgements.get((event, past.event_id))
            if judgement:
                gains[past.event_id] = _JUDGED_GAIN
            elif judgement is None and kind is not None and self.kinds.get(past.event_id) == kind:
                gains[past.event_id] = _SAME_KIND_GAIN
        return gains


@dataclass(frozen=True)
class Judgement:
    """An operator's judgement: whether a past event helps with an event."""

    eid: UUID
    past_eid: UUID
    helps: bool
    author: str
