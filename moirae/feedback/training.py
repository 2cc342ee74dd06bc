"""Training cases for calibration and events to learn from. No I/O."""

import json
from typing import Any

from moirae.feedback.judgements import JudgedCorpus
from recall.learning import TrainingEvent, name_place
from recall.relevance import CalibrationCase, CaseMaker
from recall.relevance.rankers import iter_candidate_sets, rank_by
from recall.similarity.measures import MEASURES


def build_past_events(corpus: JudgedCorpus) -> list[TrainingEvent]:
    """The events of a corpus, for `recall.learning.build_model`.

    The location of an event is its key values as a JSON list.
    """
    events = []
    for alert in corpus.alerts:
        events.append(
            TrainingEvent(
                event_id=alert.event_id,
                ts=alert.ts,
                term_counts=alert.term_counts,
                place=name_place(_parse_key_values(alert.location)),
                group=alert.group,
            )
        )
    return events


def _parse_key_values(location: str | None) -> list[Any]:
    if location is None:
        return []
    try:
        key_values = json.loads(location)
    except ValueError:
        return [location]
    return key_values if isinstance(key_values, list) else [location]


def build_training_cases(corpus: JudgedCorpus) -> list[CalibrationCase]:
    """The answers as they would have been at the time of each event, with their outcome.

    An episode is one case: that of its first event whose outcome is known.
    """
    maker = CaseMaker(
        rank_by(MEASURES[corpus.measure]),
        corpus.k,
        corpus.kinds,
        corpus.is_same_kind,
        known_after=max(corpus.gap_micros, 1),
    )
    event_ids = {*corpus.kinds, *(event for event, _ in corpus.judgements)}
    episodes = corpus.number_episodes()
    case_by_episode: dict[int, CalibrationCase] = {}
    for candidate_set in iter_candidate_sets(corpus.alerts, corpus.gap, event_ids=event_ids):
        episode = episodes[candidate_set.alert.event_id]
        if episode in case_by_episode:
            continue
        case = maker.make(candidate_set)
        if case is not None:
            case_by_episode[episode] = case
    return list(case_by_episode.values())
