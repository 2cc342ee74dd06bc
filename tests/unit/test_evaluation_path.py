"""The way of a slice through the files of the evaluation: no file is left and entered again often.

A stay is a run of calls within one file until the way leaves it. Reading a property of a value is no
call.
"""

import ast
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from archiver.time_range import TimeRange
from moirae import evaluation
from moirae.evaluation.evaluator import RuleEvaluator
from moirae.evaluation.plan import ActiveRule, RuleSlice
from recall.engines.routing.choice import EngineChoice
from tests.unit.moirae.evaluation.builders import START_MICROS, make_filter, make_rule
from tests.unit.moirae.evaluation.test_evaluator import FakeGuard, make_evaluator

MAX_STAYS = 6
FOLDER = Path(evaluation.__file__).parent
TIMES = TimeRange(START_MICROS, START_MICROS + 10_000_000)


@cache
def list_properties(file: str) -> frozenset[tuple[str, int]]:
    """The properties of a file: name, and line of the first decorator."""
    properties: set[tuple[str, int]] = set()
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if isinstance(node, ast.FunctionDef):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if decorators & {"property", "cached_property"}:
                properties.add((node.name, node.decorator_list[0].lineno))
    return frozenset(properties)


def record_stays(run: Callable[[], object]) -> list[str]:
    """The files of the evaluation in the order in which a call enters them."""
    stays: list[str] = []

    def on_event(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(FOLDER)):
            return
        if (code.co_name, code.co_firstlineno) in list_properties(code.co_filename):
            return
        name = str(Path(code.co_filename).relative_to(FOLDER))
        if stays[-1:] != [name]:
            stays.append(name)

    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
    return stays


def make_different_filters(count: int) -> list[ActiveRule]:
    return [
        make_rule(
            f"R{number}",
            f"SELECT host, v, ts FROM s WHERE host LIKE '%x{number}%' AND ("
            + " OR ".join(f"v < {bound}" for bound in range(number + 1))
            + ")",
        )
        for number in range(count)
    ]


RULES = {
    "duckdb": [make_filter("A", 1.5)],
    "spark": [make_rule("B", "SELECT upper(host) AS host, v, ts FROM s")],
    "index": make_different_filters(20),
}


@pytest.mark.parametrize("engine", RULES)
def test_no_file_is_entered_more_than_six_times_for_a_slice(engine: str) -> None:
    evaluator: RuleEvaluator = make_evaluator(FakeGuard(), EngineChoice())
    rules: Sequence[ActiveRule] = RULES[engine]
    rule_slice = RuleSlice(tuple(rules), TIMES, TIMES)
    evaluator.evaluate_slice(rule_slice)  # what is cached is there
    stays = record_stays(lambda: evaluator.evaluate_slice(rule_slice))
    counts = Counter(stays)
    assert max(counts.values()) <= MAX_STAYS, counts
