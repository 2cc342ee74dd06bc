"""Which unresolved alerts an operator should resolve first, because most is learned from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sql
from archiver.times import from_micros
from moirae.deployments import RuleRegistry
from moirae.feedback.workspace import matches_name
from moirae.rules import Definition, SimilarRecall
from recall.learned_models import LearnedModels
from recall.learning import StoredModel
from recall.similarity import count_terms
from sql.similarity import ForecastGateway, JudgementGateway


@dataclass(frozen=True)
class UnresolvedAlert:
    """An alert without a tagged resolution.

    `tag`: its most probable tag, None if no tag is known. `probability`: of that tag, or of none
    of the known ones if that is higher. `recalled`: how many answers have one of its events as a
    hit.
    """

    alert: str
    rule: str
    ts: datetime
    key: Mapping[str, Any]
    tag: str | None
    probability: float
    recalled: int

    @property
    def benefit(self) -> float:
        """How uncertain its tag is, times how often it is recalled; never recalled counts once."""
        return (1 - self.probability) * (1 + self.recalled)


def list_unresolved(
    connection: sql.Connection, rule: str | None, limit: int
) -> list[UnresolvedAlert]:
    """The unresolved past alerts whose resolution would help most, best first."""
    alerts: list[UnresolvedAlert] = []
    for definition in RuleRegistry(connection).rules_with_recalls():
        if rule is None or matches_name(definition, rule):
            for name, recall in definition.recalls.items():
                if isinstance(recall, SimilarRecall):
                    alerts += _list_of_recall(connection, definition, name, recall)
    return choose_alerts(alerts, limit)


def _list_of_recall(
    connection: sql.Connection, definition: Definition, name: str, recall: SimilarRecall
) -> list[UnresolvedAlert]:
    contexts = recall.similar.contexts or tuple(definition.spec.context)
    model = LearnedModels(connection).load_newest(definition.name, definition.version, name)
    alerts = []
    by_frequencies = ForecastGateway(connection).get_reason(
        (definition.name, definition.version, name)
    )
    rows = JudgementGateway(connection).list_unresolved(definition.name, definition.version)
    for row in rows:
        tag, probability = _predict(
            model, count_terms(row.contexts, contexts), by_frequencies is not None
        )
        alerts.append(
            UnresolvedAlert(
                alert=row.alert,
                rule=definition.name,
                ts=from_micros(row.ts),
                key=row.key,
                tag=tag,
                probability=probability,
                recalled=row.recalled,
            )
        )
    return alerts


def _predict(
    model: StoredModel | None, term_counts: Mapping[str, int], by_frequencies: bool
) -> tuple[str | None, float]:
    """The most probable tag, and the highest probability of any label.

    With too few episodes to say, nothing is probable. `by_frequencies`: forecasts are worse than plain
    frequencies, which are used instead.
    """
    if model is None:
        return None, 0.0
    forecast = model.forecast(term_counts, 1)
    if forecast.withheld:
        return None, 0.0
    labels = forecast.frequencies if by_frequencies else forecast
    assert labels is not None
    tag, probability = labels.tags[0]
    return tag, max(probability, labels.new_tag)


def choose_alerts(alerts: Iterable[UnresolvedAlert], limit: int) -> list[UnresolvedAlert]:
    """The alerts of the highest benefit, each once: by its best event; the newer of equal ones."""
    chosen: dict[str, UnresolvedAlert] = {}
    for alert in sorted(alerts, key=lambda alert: (alert.benefit, alert.ts), reverse=True):
        chosen.setdefault(alert.alert, alert)
    return list(chosen.values())[:limit]
