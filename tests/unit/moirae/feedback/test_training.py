"""Training cases: answers to events whose outcome is known."""

from moirae.feedback.judgements import JudgedCorpus
from moirae.feedback.training import build_training_cases
from recall.relevance.rankers.ready_contexts import AlertContext
from tests.unit.recall.contexts import HOUR


def _alerts(*messages: str) -> list[AlertContext]:
    alerts = []
    for number, message in enumerate(messages):
        alerts.append(AlertContext(f"e{number}", "t", number * HOUR, {f"msg={message}": 1}))
    return alerts


def test_case_states_whether_the_best_hit_is_of_the_same_kind() -> None:
    alerts = _alerts("disk", "net", "disk", "net")
    kinds = {"e0": "disk", "e1": "net", "e2": "disk", "e3": "cpu"}
    cases = build_training_cases(JudgedCorpus("", alerts, kinds))
    outcomes = [(case.ts, case.best_hit_correct, case.is_nothing_comparable) for case in cases]
    assert outcomes == [
        (HOUR, None, True),
        (2 * HOUR, True, False),
        (3 * HOUR, False, True),
    ]


def test_event_whose_best_hit_is_of_unknown_kind_makes_no_case() -> None:
    alerts = _alerts("disk", "net", "disk")
    assert build_training_cases(JudgedCorpus("", alerts, {"e2": "disk"})) == []


def test_judged_event_without_kind_makes_a_case() -> None:
    alerts = _alerts("disk", "net", "disk")
    (case,) = build_training_cases(JudgedCorpus("", alerts, {}, {("e2", "e0"): True}))
    assert (case.ts, case.best_hit_correct) == (2 * HOUR, True)
