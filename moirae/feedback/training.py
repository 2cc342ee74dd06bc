"""What answers to events of known kind were worth: what the calibration learns from, and is tested on."""

from moirae.feedback.judgements import JudgedCorpus
from recall.relevance import CalibrationCase, iter_candidate_sets, make_case, rank_by
from recall.similarity import MEASURES


def build_training_cases(corpus: JudgedCorpus) -> list[CalibrationCase]:
    """The answers to events of known kind, as they would have been then, with what they were worth."""
    ranker = rank_by(MEASURES[corpus.measure])
    asked = {*corpus.kinds, *(event for event, _ in corpus.judgements)}
    found = (
        make_case(question, ranker, corpus.k, corpus.kinds, corpus.is_same_kind)
        for question in iter_candidate_sets(corpus.alerts, corpus.gap, event_ids=asked)
    )
    return [case for case in found if case is not None]
