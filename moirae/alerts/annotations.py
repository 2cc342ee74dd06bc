"""Annotations: templates of a rule, filled from the first event of an alert."""

from collections.abc import Callable, Mapping

from archiver.times import from_micros
from moirae.alerts.event import Event
from moirae.rules.templates import TemplateFault, render

# Characters; a filled annotation is cut there.
_LONGEST = 4000


def renderer(annotations: Mapping[str, str], labels: Mapping[str, str]) -> Callable[[Event], Mapping[str, str]]:
    """Fills the templates for an event. A template that fails says so in its place: no alert is lost for it."""

    def fill_all(event: Event) -> Mapping[str, str]:
        values = {**event.attributes, "ts": from_micros(event.ts).isoformat().replace("+00:00", "Z")}
        return {name: _fill(text, values, labels) for name, text in annotations.items()}

    return fill_all


def _fill(text: str, event: Mapping[str, object], labels: Mapping[str, str]) -> str:
    try:
        return render(text, {"event": event, "labels": labels})[:_LONGEST]
    except TemplateFault as fault:
        return f"{text} (not filled: {fault})"[:_LONGEST]
