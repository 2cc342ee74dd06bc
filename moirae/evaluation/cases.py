"""What answers to events of known kind were worth: what the calibration learns from, and is tested on."""

from moirae.evaluation.judged import Judged
from recall.similarity.calibration import Case, case_of
from recall.similarity.measure import MEASURES
from recall.similarity.run import by, questions


def cases(known: Judged) -> list[Case]:
    """The answers to events of known kind, as they would have been then, with what they were worth."""
    ranker = by(MEASURES[known.measure])
    asked = {*known.kinds, *(event for event, _ in known.said)}
    found = (
        case_of(question, ranker, known.k, known.kinds, known.same)
        for question in questions(known.alerts, known.gap, only=asked)
    )
    return [case for case in found if case is not None]
