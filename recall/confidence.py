"""How probable it is that a similarity answer has a match: stored with the answer.

It is computed from the calibration that is current when the answer becomes final: calibrations and
the tags of hits change later. `recall.similarity.calibration_model` has the model.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import structlog

import sql
from recall.similarity.calibration_model import Calibration, MatchEstimate
from sql.similarity import CalibrationGateway, JudgementGateway

_LOG = structlog.get_logger()
_UNKNOWN = MatchEstimate(episodes=0, withheld=True)


class MatchConfidence(NamedTuple):
    """`comparable`: the probability that the best hit is of the same kind; None: too few episodes to
    say, or no hit. `match`: the `MatchEstimate` that it is from, as JSON; None by the measure
    `learned`, whose forecast says more.
    """

    comparable: float | None
    match: Mapping[str, Any] | None


def _load_calibration(
    connection: sql.Connection, rule: str, version: str, recall: str
) -> Calibration | None:
    """The calibration of a recall; None if there is none yet."""
    model = CalibrationGateway(connection).get_model(rule, version, recall)
    return None if model is None else Calibration.from_json(model)


def match_confidence(
    connection: sql.Connection,
    recall: tuple[str, str, str],
    hits: Sequence[Mapping[str, Any]],
    forecast: Mapping[str, Any] | None = None,
    kinds: Sequence[str | None] | None = None,
) -> MatchConfidence:
    """The confidence in a similarity answer of a recall (rule, version, name).

    `hits` are ordered best first. `forecast`: of the measure `learned`, which has one number for
    both: what is not "none of these" is comparable. `kinds`: of the hits, None where unknown; None:
    they are read. If the computation fails, that is logged, and the answer has none.
    """
    if forecast is not None:
        new_tag = forecast["new_tag"]
        return MatchConfidence(None if new_tag is None else 1.0 - float(new_tag), None)
    rule, version, name = recall
    try:
        if kinds is None:
            tags = JudgementGateway(connection).list_tags([hit["past_eid"] for hit in hits])
            kinds = [tags.get(hit["past_eid"]) for hit in hits]
        return _estimate_match(_load_calibration(connection, rule, version, name), hits, kinds)
    except (KeyError, TypeError, ValueError) as error:
        _LOG.warning(
            "match probability not computed",
            action="match_probability_failed",
            rule=rule,
            recall=name,
            error=repr(error),
        )
        return MatchConfidence(None, None)


def _estimate_match(
    calibration: Calibration | None,
    hits: Sequence[Mapping[str, Any]],
    kinds: Sequence[str | None],
) -> MatchConfidence:
    """The confidence in an answer by a calibration. `kinds`: of the hits, None where unknown."""
    if calibration is None:
        return MatchConfidence(None, _UNKNOWN.to_json())
    scores = list(map(itemgetter("score"), hits))
    event_count = hits[0]["corpus"]["events"] if hits else None
    estimate = calibration.estimate(scores, kinds, event_count)
    return MatchConfidence(estimate.probability, estimate.to_json())
