from dataclasses import replace
from datetime import timedelta
from typing import Any

from moirae.config.streams import Stream
from moirae.rules.definition import Definition
from moirae.rules.event_streams import build_event_streams, find_refusal, merge_streams
from moirae.rules.rule_set import DerivedQuery, EventStream
from recall.query import Tables, infer_shape
from tests.unit.moirae.rules.test_event_names import rules

CPU = Stream.model_validate(
    {
        "columns": {"ts": "timestamp", "host": "string", "v": "double"},
        "time": "ts",
        "id": ["host"],
        "source": {"http": True},
    }
)
TYPES = {"host": "string", "v": "double"}


def definition(expr: str, types: dict[str, str] = TYPES, **fields: Any) -> Definition:
    (rule,) = rules("g", fields.pop("derived", None), High=expr)
    return Definition(rule, types, ("host",), ("host",), **fields)


def test_rows_that_the_identity_tells_apart_are_read_as_they_are() -> None:
    expr = "SELECT host, ts, v FROM cpu WHERE v > 1"
    (stream,) = build_event_streams("events.high", definition(expr), {"cpu": CPU})
    columns = {"ts": "timestamp", **TYPES}
    assert stream == EventStream("events.high", "g/High", expr, columns)


def test_of_other_rows_the_smallest_is_the_event() -> None:
    expr = "SELECT host, ts, v FROM cpu"
    without_id = CPU.model_copy(update={"id": None})
    (stream,) = build_event_streams("events.high", definition(expr), {"cpu": without_id})
    assert "min(struct(`host`, `v`))" in stream.expr
    assert stream.expr.endswith("GROUP BY ts, `host`)")
    shape = infer_shape(stream.expr, Tables({"cpu": "ts"}))
    assert (shape.is_stateless, shape.streams) == (True, {"cpu"})
    maps = {**TYPES, "labels": "map<string,string>"}
    (stream,) = build_event_streams("events.high", definition(expr, maps), {"cpu": without_id})
    assert "min_by(struct(`host`, `v`, `labels`), struct(`host`, `v`))" in stream.expr


def test_what_it_reads_comes_with_it_under_full_names() -> None:
    expr = "SELECT host, ts, v FROM d"
    derived = {"d": "SELECT l.host, l.ts, l.v FROM events.Low l", "unread": "SELECT 1"}
    high = definition(expr, derived=derived)
    low = EventStream("events.low", "f/Low", "SELECT host, ts, v FROM cpu", is_early=True)
    rule = high.rule
    assert rule.derived[0] == DerivedQuery("g", "d", derived["d"])
    high = replace(high, rule=replace(rule, event_streams=(low,)))
    *inner, stream = build_event_streams("events.g/high", high, {"cpu": CPU})
    assert [(item.name, item.rule) for item in inner] == [("events.f/low", "f/Low"), ("d", "")]
    assert "FROM `events.f/low` AS l" in inner[1].expr
    assert stream.is_early
    assert merge_streams([*inner, *inner]) == tuple(inner)
    assert high.is_early


def test_rules_without_an_event_query_are_refused() -> None:
    assert find_refusal(definition("SELECT host, ts FROM cpu")) is None
    (absence,) = rules("g", High="SELECT 1")
    spec = absence.spec.model_copy(
        update={"expr": None, "absent": timedelta(minutes=1), "stream": "cpu"}
    )
    silent = Definition(replace(absence, spec=spec), {}, ("host",), ("host",))
    assert find_refusal(silent) == "it looks for absent rows"
