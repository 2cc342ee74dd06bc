"""Annotations: templates of a rule, filled from the first event of an alert."""

from collections.abc import Callable, Collection, Mapping

from archiver.times import from_micros
from moirae.alerts.event import Event
from moirae.errors import TemplateFault
from moirae.rules import render

# Text of floating point values that JSON has no number for.
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})

_MAX_LENGTH = 4000  # characters; longer annotations are cut


def make_renderer(
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    float_attributes: Collection[str] = (),
    parameters: Mapping[str, object] | None = None,
) -> Callable[[Event], Mapping[str, str]]:
    """A function that fills the templates for an event.

    A template that fails is shown with the error in place of its text: the alert is kept.
    `float_attributes`: attributes of type float or double, whose values may not be finite.
    """

    def fill_all(event: Event) -> Mapping[str, str]:
        if not annotations:
            return {}
        values = dict(event.attributes)
        for name in float_attributes:
            if values.get(name) in _NOT_FINITE:
                values[name] = float(values[name])
        values["ts"] = from_micros(event.ts).isoformat().replace("+00:00", "Z")
        variables = {"event": values, "labels": labels, "parameters": parameters or {}}
        return {name: _fill_template(text, variables) for name, text in annotations.items()}

    return fill_all


def _fill_template(text: str, variables: Mapping[str, Mapping[str, object]]) -> str:
    try:
        return render(text, variables)[:_MAX_LENGTH]
    except TemplateFault as fault:
        return f"{text} (not filled: {fault})"[:_MAX_LENGTH]
