"""The probability that the best hit of a similarity answer is of the same kind as its event.

It is computed from the calibration that is current when the answer becomes final, and stored with
the answer: calibrations and the tags of hits change later. `recall.similarity.calibration_model`
has the model.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import structlog

import sql
from recall.similarity.calibration_model import Calibration, answer_features
from sql.similarity import CalibrationGateway, JudgementGateway

_LOG = structlog.get_logger()


def load_calibration(
    connection: sql.Connection, rule: str, version: str, recall: str
) -> Calibration | None:
    """The calibration of a recall; None if there is none yet."""
    model = CalibrationGateway(connection).get_model(rule, version, recall)
    return None if model is None else Calibration.from_json(model)


def match_probability(
    connection: sql.Connection,
    recall: tuple[str, str, str],
    hits: Sequence[Mapping[str, Any]],
    forecast: Mapping[str, Any] | None = None,
) -> float | None:
    """The probability for a similarity answer of a recall (rule, version, name).

    `hits` are ordered best first. `forecast`: of the measure `learned`, which has one number for
    both: what is not "none of these" is comparable. None if there are too few episodes to say, no hit,
    no calibration, or if the computation fails: that is logged, and the answer is stored without a
    probability.
    """
    if forecast is not None:
        new_tag = forecast["new_tag"]
        return None if new_tag is None else 1.0 - float(new_tag)
    if not hits:
        return None
    rule, version, name = recall
    try:
        calibration = load_calibration(connection, rule, version, name)
        if calibration is None:
            return None
        eids = list(map(itemgetter("past_eid"), hits))
        tags = JudgementGateway(connection).list_tags(eids)
        kinds = list(map(tags.get, eids))
        scores = list(map(itemgetter("score"), hits))
        features = answer_features(scores, kinds, hits[0]["corpus"]["events"])
        return calibration.probability(features)
    except (KeyError, TypeError, ValueError) as error:
        _LOG.warning(
            "match probability not computed",
            action="match_probability_failed",
            rule=rule,
            recall=name,
            error=repr(error),
        )
        return None
