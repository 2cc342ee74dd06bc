"""Annotations of alerts."""

from uuid import UUID

from moirae.alerts.annotations import make_renderer
from moirae.alerts.event import Event


def make_event(**attributes: object) -> Event:
    return Event(UUID(int=1), 1_700_000_000_000_000, {}, "[]", attributes)


def test_templates_are_filled_with_attributes_labels_and_time() -> None:
    templates = {
        "summary": "{{ event.host }} at {{ event.cpu | round(1) }} %: {{ labels.severity }}",
        "time": "{{ event.ts }}",
    }
    render = make_renderer(templates, {"severity": "page"})
    assert render(make_event(host="n1", cpu=93.27)) == {
        "summary": "n1 at 93.3 %: page",
        "time": "2023-11-14T22:13:20Z",
    }


def test_failing_template_is_shown_with_its_error() -> None:
    annotations = make_renderer({"a": "{{ event.nothing }}", "b": "fine"}, {})(make_event())
    assert annotations["a"].startswith("{{ event.nothing }} (not filled: ")
    assert annotations["b"] == "fine"


def test_not_finite_value_of_a_float_attribute_is_a_number() -> None:
    render = make_renderer({"a": "{{ event.cpu > 1 }} {{ event.name }}"}, {}, ["cpu"])
    assert render(make_event(cpu="Infinity", name="NaN")) == {"a": "True NaN"}


def test_long_annotation_is_truncated() -> None:
    render = make_renderer({"a": "{{ event.text }}"}, {})
    assert len(render(make_event(text="x" * 10_000))["a"]) == 4000
