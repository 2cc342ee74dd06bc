"""Rows of contexts: order, truncation."""

import orjson

from moirae.evaluation.contexts import ContextQueries, EventContexts
from moirae.evaluation.contexts.event_contexts import parse_contexts
from tests.unit.moirae.evaluation.contexts.builders import make_rule

QUERIES = ContextQueries.lift(make_rule()).queries


def _texts(count: int) -> list[str]:
    return [orjson.dumps({"host": f"{number:05}"}).decode() for number in reversed(range(count))]


def test_truncated_context_records_its_number_of_rows() -> None:
    limit = EventContexts.MAX_ROWS
    contexts = parse_contexts(QUERIES, {"near": _texts(limit + 7), "around": _texts(limit)})
    assert contexts.truncated == {"near": limit + 7}
    assert [row["host"] for row in contexts.contexts["near"]] == [
        f"{number:05}" for number in range(limit)
    ]
    assert len(contexts.surroundings["around"]) == limit


def test_context_within_the_limit_is_complete() -> None:
    assert parse_contexts(QUERIES, {"near": _texts(3)}).truncated == {}


def test_rows_are_in_the_same_order_however_numbers_are_written() -> None:
    """Java writes 1.0E10 where others write 10000000000.0."""
    java = ['{"v": 1.0E10}', '{"v": 2.5}', '{"v": 1.0E-5}']
    other = ['{"v": 0.00001}', '{"v":2.5}', '{"v": 10000000000.0}']
    assert parse_contexts(QUERIES, {"around": java}) == parse_contexts(QUERIES, {"around": other})
