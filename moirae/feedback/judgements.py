"""What people have said of past events: the tags of their resolutions, and of single hits that they help or do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from recall.relevance import AlertContext, CandidateSet, Gains

# What a hit of the same kind gives, and one of which somebody has said that it helps.
_SAME_KIND_GAIN, _JUDGED_GAIN = 1, 2


@dataclass(frozen=True)
class JudgedCorpus:
    """Events with their contexts, and what is known of them: `kinds` by event; `said` of (event, past event)."""

    name: str
    alerts: Sequence[AlertContext]
    kinds: Mapping[str, str]
    judgements: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    gap: timedelta = timedelta(0)
    measure: str = "tfidf"
    k: int = 10

    def is_same_kind(self, event: str, past: str) -> bool | None:
        """Whether two events are of one kind; None: nobody knows."""
        if (event, past) in self.judgements:
            return self.judgements[event, past]
        kind, other = self.kinds.get(event), self.kinds.get(past)
        return None if kind is None or other is None else kind == other

    def gains_of(self, question: CandidateSet) -> Gains:
        """How much each candidate helps with a question."""
        asked = question.alert.event_id
        mine, found = self.kinds.get(asked), {}
        left_out = {question.history.alerts[row].event_id for row in question.excluded_rows}
        for past in question.candidates:
            said = self.judgements.get((asked, past.event_id))
            alike = mine is not None and self.kinds.get(past.event_id) == mine
            if past.event_id not in left_out and (said or (said is None and alike)):
                found[past.event_id] = _JUDGED_GAIN if said else _SAME_KIND_GAIN
        return found


@dataclass(frozen=True)
class Judgement:
    """Somebody says whether a past event helps with an event."""

    eid: UUID
    past_eid: UUID
    helps: bool
    author: str
