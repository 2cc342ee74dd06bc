"""What the alerts of a rule have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from archiver.times import span
from moirae.alerts.annotations import renderer
from moirae.alerts.event import Event
from moirae.alerts.lifecycle import Timing
from moirae.rules.definition import Definition

_FLOATS = ("float", "double")


@dataclass(frozen=True)
class Source:
    """What the alerts of a rule carry. `render` makes annotations from the first event."""

    rule: str
    version: str
    timing: Timing
    labels: Mapping[str, str]
    render: Callable[[Event], Mapping[str, str]]


def source(definition: Definition) -> Source:
    """Of a rule."""
    spec = definition.rule.spec
    labels = {"alertname": spec.alert, **spec.labels}
    floats = [name for name, kind in definition.types.items() if kind in _FLOATS]
    timing = Timing(span(spec.for_), span(spec.keep_firing_for))
    return Source(definition.name, definition.version, timing, labels, renderer(spec.annotations, labels, floats))
