"""Annotations: templates of a rule, filled from the first event of an alert."""

from collections.abc import Callable, Collection, Mapping

from archiver.times import from_micros
from moirae.alerts.event import Event
from moirae.errors import TemplateFault
from moirae.rules import render

# What is no finite number, as JSON has it.
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})

# Characters; a filled annotation is cut there.
_MAX_LENGTH = 4000


def make_renderer(
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    float_attributes: Collection[str] = (),
) -> Callable[[Event], Mapping[str, str]]:
    """Fills the templates for an event. A template that fails says so in its place: no alert is lost for it.

    `numbers`: attributes that are floating-point numbers, also where they are not finite.
    """

    def fill_all(event: Event) -> Mapping[str, str]:
        odd = {
            name: float(event.attributes[name])
            for name in float_attributes
            if event.attributes.get(name) in _NOT_FINITE
        }
        values = {
            **event.attributes,
            **odd,
            "ts": from_micros(event.ts).isoformat().replace("+00:00", "Z"),
        }
        return {name: _fill_template(text, values, labels) for name, text in annotations.items()}

    return fill_all


def _fill_template(text: str, event: Mapping[str, object], labels: Mapping[str, str]) -> str:
    try:
        return render(text, {"event": event, "labels": labels})[:_MAX_LENGTH]
    except TemplateFault as fault:
        return f"{text} (not filled: {fault})"[:_MAX_LENGTH]
