"""Annotation templates."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.errors import TemplateFault
from moirae.rules import templates
from moirae.rules.templates import MAX_OUTPUT, find_variables, render
from tests.examples import examples

EVENT = {
    "host": "n1",
    "cpu": 93.27,
    "values": 3,
    "items": "i",
    "rows": [1, 2, 3],
    "big": 10**9,
    "none": None,
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ event.host }} at {{ event.cpu | round(1) }} %", "n1 at 93.3 %"),
        ("{{ event['host'] | upper }}", "N1"),
        ("{{ event.values }} {{ event.items }}", "3 i"),
        ("{% if event.cpu > 90 %}hot{% else %}fine{% endif %}", "hot"),
        ("{% for row in event.rows %}{{ loop.index }}:{{ row * 2 }} {% endfor %}", "1:2 2:4 3:6 "),
        ("{{ event.cpu * 2 // 1 % 100 }}", "86.0"),
        ("{{ event.other | default('?') }}", "?"),
        ("{{ 'a' ~ event.host[0:1] }}", "an"),
        ("<b>{{ labels.severity }}</b>", "<b>page</b>"),
    ],
)
def test_template_is_rendered(template: str, text: str) -> None:
    assert render(template, {"event": EVENT, "labels": {"severity": "page"}}) == text


def test_variables_exclude_those_of_loops() -> None:
    assert find_variables(
        "{{ event.x }} {% for a in rows if a > b %}{{ a }}{{ loop.index }}{% endfor %}"
    ) == {*("event", "rows", "b")}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ event.nothing }}", "has no attribute 'nothing'"),
        ("{{ other }}", "'other' is undefined"),
        ("{{ event.host * event.big }}", "requires numbers"),
        ("{{ '%999999999d' % 1 }}", "requires numbers"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ event.host + 1 }}", "concatenate"),
        ("{{ event.cpu.__class__ }}", "is unsafe"),
        ("{{ event.cpu ** 9 }}", "** is not allowed in a template"),
        ("{{ event.host.center(9) }}", "calls are not allowed in a template"),
        ("{% set x = 1 %}", "assignments are not allowed in a template"),
        ("{% include 'x' %}", "include is not allowed in a template"),
        ("{% macro m() %}{% endmacro %}", "macro is not allowed in a template"),
        ("{{ event.host | center(999999999) }}", "unknown filter 'center'"),
        (
            "{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}",
            "nested loops are not allowed",
        ),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deep"),
        ("{{ " + "9" * 5000 + " }}", "number too long"),
        ("{{ -" + "-" * 5000 + "1 }}", "nested too deep"),
        ("{% if %}", "Expected an expression"),
    ],
)
def test_forbidden_or_failing_template_is_rejected(template: str, message: str) -> None:
    with pytest.raises(TemplateFault, match=r"(?i)" + message.replace("*", r"\*")):
        render(template, {"event": EVENT})


def test_fault_has_its_line() -> None:
    with pytest.raises(TemplateFault) as caught:
        find_variables("a\nb {{ x | }}\n")
    assert caught.value.line == 2


def test_values_are_joined_by_name() -> None:
    rows = [{"a": 1}, {"a": 2}]
    assert render("{{ rows | join(', ', attribute='a') }}", {"rows": rows}) == "1, 2"
    assert render("{{ rows | map(attribute='a') | join }}", {"rows": rows}) == "12"


def test_joins_within_joins_are_truncated() -> None:
    template = "{{ x | join(x | join(x | join(x | join(x)))) | length }}"
    assert render(template, {"x": "x" * 10_000}) == str(MAX_OUTPUT)


@pytest.mark.parametrize("operator", ["*", "~", "+"])
def test_template_of_thousands_of_operands_is_rejected(operator: str) -> None:
    with pytest.raises(TemplateFault, match=r"nested too deep|more than 2,000"):
        render("{{ " + operator.join(["1"] * 20_000) + " }}", {})


def test_long_output_is_truncated() -> None:
    template = "{% for row in rows %}" + "x" * 1000 + "{% endfor %}"
    assert len(render(template, {"rows": range(10**9)})) == MAX_OUTPUT


@pytest.mark.parametrize(
    "template",
    [
        "{{ 9 | round(999999999) }}",
        "{{ 9.5 | round(-999999999) }}",
        "{{ event.rows | join('x' | string) }}",
        "{{ (event.big * event.big * event.big) | string | length }}",
    ],
)
def test_huge_operands_render_within_a_second(template: str) -> None:
    begin = time.monotonic()
    render(template, {"event": EVENT})
    assert time.monotonic() - begin < 1


MANY = {"rows": range(10**9), "values": list(range(200_000)), "texts": ["x" * 100] * 100_000}


@pytest.mark.parametrize(
    "template",
    [
        "{% for v in event.values %}{% if "
        + "v not in (v, v) or " * 40
        + "0 %}x{% endif %}{% endfor %}",
        "{% for v in event.values %}{% if event.values | sort | sum < v %}x{% endif %}{% endfor %}",
        "{{ event.texts"
        + " | sort" * 50
        + " | length }}"
        + "{{ event.texts | sort | length }}" * 300,
        "{{ event.texts" + " | map('upper')" * 50 + " | sort | length }}",
        "{{ event.values" + " | select" * 50 + " | sum }}",
        "{{ event.values" + " | unique | reverse | map('upper') | sort" * 12 + " | first }}",
    ],
    ids=["operators in a loop", "sort in a loop", "sort", "map", "select", "chain"],
)
def test_template_that_computes_for_long_is_stopped(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "MAX_TIME", 0.2)
    with pytest.raises(TemplateFault, match=r"longer than 0\.2 s"):
        render(template, {"event": MANY})


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("{{ 1", " + 1 }}"),
        ("{{ event.cpu", " * 2 }}"),
        ("{{ event.host", " | lower }}"),
    ],
)
def test_nesting_is_rendered_or_rejected(begin: str, end: str) -> None:
    operator = end.removesuffix(" }}")
    render(begin + operator * 50 + " }}", {"event": EVENT})
    with pytest.raises(TemplateFault, match="in one another"):
        find_variables(begin + operator * 70 + " }}")


@pytest.mark.parametrize(
    ("begin", "middle", "end"),
    [
        ("(1 if ", "1", " else 2)"),
        ("[", "1", "][0]"),
        ("(1 and ", "1", ")"),
        ("(1 < ", "1", ")"),
        ("-", "1", ""),
        ("'a' ~ (", "1", ")"),
    ],
)
def test_deepest_nesting_that_is_allowed_is_rendered(begin: str, middle: str, end: str) -> None:
    for depth in range(70):
        text = "{{ " + begin * depth + middle + end * depth + " }}"
        try:
            find_variables(text)
        except TemplateFault:
            break
        render(text, {})
    assert depth > 20


def test_time_of_one_template_is_not_counted_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MAX_TIME", 0.2)
    with pytest.raises(TemplateFault, match="longer than"):
        render("{% for v in rows %}{% endfor %}", {"rows": range(10**9)})
    text = "{% for v in rows %}{{ v }}{{ '' if loop.last else ',' }}{% endfor %}"
    assert render(text, {"rows": range(3)}) == "0,1,2"


def test_joined_texts_are_truncated_before_they_are_copied_again() -> None:
    text = "x" * 1_000_000
    tracemalloc.start()
    result = render(
        "{{ (" + " ~ ".join(["event.t"] * 900) + ") | length }}", {"event": {"t": text}}
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert int(result) == MAX_OUTPUT
    assert peak < 20_000_000


PIECES = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "event",
    ".x",
    "|",
    "round",
    "(",
    ")",
    "[",
    "]",
    "'",
    '"',
    "*",
    "**",
]
PIECES += [
    "for",
    "in",
    "if",
    "else",
    "endfor",
    "endif",
    "set",
    "=",
    "1",
    " ",
    "\n",
    "~",
    "-",
    ",",
    "not",
    "is",
    "\\",
]


@examples(400)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
def test_any_text_is_rendered_or_rejected(text: str) -> None:
    with suppress(TemplateFault):
        find_variables(text)
        render(text, {"event": EVENT})
