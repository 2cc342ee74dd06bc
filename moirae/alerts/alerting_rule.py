"""Alerting rules: name, labels, timing and annotations that all alerts of a rule share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from moirae.alerts.annotations import make_renderer
from moirae.alerts.event import Event
from moirae.alerts.lifecycle import AlertTiming
from moirae.rules import Definition

_FLOAT_TYPES = ("float", "double")


@dataclass(frozen=True)
class AlertingRule:
    """What all alerts of one rule version share.

    `render_annotations` fills the annotation templates from the first event of an alert.
    `is_early`: events are detected while their attributes may still change.
    """

    rule: str
    version: str
    timing: AlertTiming
    labels: Mapping[str, str]
    render_annotations: Callable[[Event], Mapping[str, str]]
    is_early: bool = False


def make_alerting_rule(definition: Definition) -> AlertingRule:
    """The alerting part of a checked rule; the label `alertname` is added."""
    spec = definition.spec
    labels = {"alertname": spec.alert, **spec.labels}
    floats = [name for name, kind in definition.types.items() if kind in _FLOAT_TYPES]
    timing = AlertTiming(definition.pending_for, definition.keep_firing_for)
    return AlertingRule(
        definition.name,
        definition.version,
        timing,
        labels,
        make_renderer(spec.annotations, labels, floats, spec.parameters),
        definition.is_early,
    )
