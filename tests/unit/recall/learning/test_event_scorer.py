"""Comparisons of an index with a learned model."""

from uuid import UUID

from archiver.time_range import TimeRange
from recall.learning.build import build_model
from recall.learning.event_scorer import LearnedScorer
from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity import CorpusEvent, Index, SimilarState
from tests.unit.recall.learning.events import HOUR, make_events

COUNT = 300


def make_state() -> tuple[SimilarState, Index, dict[str, str]]:
    events, tags = make_events(COUNT)
    built = build_model(events, tags, HOUR)
    assert built is not None
    index = Index()
    for number, event in enumerate(events, start=1):
        index.add(0, [CorpusEvent(event.ts, event.event_id, number, event.term_counts)])
    question = SimilarQuestion(None, 1.0, "newest", ("c",), 10, "learned", HOUR)
    recall_event = RecallEvent(UUID(int=1), (COUNT + 1) * 6 * HOUR, {"host": "n1"}, {})
    contexts = {"c": [{"msg": "disk", "host": "n1", "user": "u1"}]}

    def make_scorer(event: CorpusEvent) -> LearnedScorer:
        return LearnedScorer(built.model, event, "n1")

    state = SimilarState.resume(index, question, recall_event, COUNT, contexts, None, make_scorer)
    return state, index, tags


def test_hits_have_the_probable_tag_and_say_why() -> None:
    state, index, tags = make_state()
    state.record_pieces(1, COUNT)
    index.score([state.comparison], [TimeRange(None, (COUNT + 1) * 6 * HOUR)])
    answer = state.build_answer(index)
    assert len(answer) == 10
    right = [tags[hit["past_eid"]] == "disk" for hit in answer]
    assert sum(right) >= 9
    for hit in answer:
        assert hit["tag"] == tags[hit["past_eid"]]
        assert hit["tag_terms"][0][0] == "msg=disk" or hit["tag"] != "disk"
        assert hit["parts"]["resolution"] < 0 < hit["parts"]["terms"]
        assert 0 < hit["score"] < 1
    event_forecast = state.forecast()
    assert event_forecast is not None
    forecast = event_forecast.shown
    assert forecast["tags"][0][0] == "disk"


def test_answer_does_not_depend_on_the_division_into_pieces() -> None:
    state, index, _ = make_state()
    pieces, _, _ = make_state()
    end = (COUNT + 1) * 6 * HOUR
    state.record_pieces(1, COUNT)
    index.score([state.comparison], [TimeRange(None, end)])
    for low, high in ((end // 2, end), (None, end // 2)):
        pieces.record_pieces(1, COUNT)
        pieces.index.score([pieces.comparison], [TimeRange(low, high)])
    assert pieces.comparison.top.hits == state.comparison.top.hits
