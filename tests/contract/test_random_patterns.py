"""Random patterns over random texts of awkward characters: what is compiled has the truth of Spark."""

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.delta.schema import ARROW_TYPES
from moirae.evaluation.index import RuleCompiler, RuleIndex
from recall.errors import SparkRequired
from recall.query import Unsupported
from recall.query.parsing import parse

pytestmark = [pytest.mark.services, pytest.mark.slow]

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
_COUNT = 1_500  # conditions that are compiled
_STATEMENT = 60  # conditions of one statement
_CHARACTERS = list("abASskKiIſ\u212aİıßẞéÉ日®19_ \t\n\r\u0085\u2028\0.\\-😀%ǆǅﬁ\u0307\u00a0\u3000٣")
_ENDS = ["\n", "\r\n", "a\n", "a\r\n", "a\r", "a\u2028", "a\u0085", "\na", "a\n\n", "K", "ſ", "ẞ"]
_LITERALS = list("abskiSKIéß日1_ -®ſ")
_ESCAPES = [*"wWdDsS.tnr-hRvefa", "x41", "u00e9", "\\\\", "0101"]
_CLASS_PARTS = [
    "a-c",
    "k",
    "s",
    "é",
    "0-9",
    r"\\w",
    r"\\s",
    ".",
    "日",
    "A-Z",
    r"\\-",
    "ſ",
    "^",
    "$",
]
_MARKS = ["^", "$", r"\\b", r"\\B", r"\\A", r"\\z", r"\\Z"]
_QUANTIFIERS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??"]
_FLAGS = ["", "", "(?i)", "(?iu)", "(?s)", "(?m)", "(?is)", "(?ui)", "(?u)"]
_TEXT_TESTS = [
    "t LIKE '{}'",
    "lower(t) LIKE '{}'",
    "t ILIKE '{}'",
    "contains(lower(t), '{}')",
    "startswith(upper(t), '{}')",
    "lower(upper(t)) = '{}'",
]
_TYPES = {"ts": "timestamp", "n": "int", "t": "string"}


class Conditions:
    """Random conditions, and texts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def texts(self) -> list[str | None]:
        texts: list[str | None] = [None, "", *_ENDS]
        for _ in range(120):
            length = self._random.choice([1, 1, 2, 3, 4, 6, 9])
            texts.append("".join(self._random.choices(_CHARACTERS, k=length)))
        return texts

    def __iter__(self) -> Iterator[str]:
        choose = self._random.choice
        while True:
            pattern = choose(_FLAGS) + choose(["", ".*"]) + self._pattern() + choose(["", ".*"])
            literal = "".join(self._random.choices([*_LITERALS, "%", "_"], k=3))
            condition = choose(
                [
                    f"t RLIKE '{pattern}'",
                    f"t RLIKE '{pattern}'",
                    f"regexp_extract(t, '{pattern}', 0) = '{choose(_LITERALS)}'",
                    f"lower(t) RLIKE '{pattern}'",
                    choose(_TEXT_TESTS).format(literal),
                ]
            )
            yield choose(["{}", "{}", "NOT {}", "({}) IS NOT TRUE"]).format(condition)

    def _pattern(self) -> str:
        alternatives: list[str] = []
        for _ in range(self._random.choice([1, 1, 1, 2])):
            parts = [self._part() for _ in range(self._random.randint(1, 3))]
            alternatives.append("".join(parts))
        return "|".join(alternatives)

    def _part(self) -> str:
        choose = self._random.choice
        kind = choose(["literal", "literal", "escape", "class", "mark", "group"])
        if kind == "mark":
            return choose(_MARKS)
        atom = choose([*_LITERALS, "."])
        if kind == "escape":
            atom = rf"\\{choose(_ESCAPES)}"
        elif kind == "class":
            atom = f"[{choose(['', '^'])}{''.join(self._random.choices(_CLASS_PARTS, k=2))}]"
        elif kind == "group":
            # Without more: repetitions of repetitions take Java too many steps.
            return f"{choose(['(', '(?:', '(?i:'])}{self._pattern()}){choose(['', '?', '{2}'])}"
        return atom + choose(_QUANTIFIERS)


def _evaluate(condition: str, rows: pa.Table) -> tuple[set[int], set[int]]:
    """The rows for which a condition holds, and those that are left to Spark."""
    compiler = RuleCompiler({"s": _TYPES})
    query = parse(f"SELECT ts, n FROM s WHERE {condition}")
    rule = compiler.compile_filter(query, {"n": "int"})
    matches: set[int] = set()
    undecided: set[int] = set()
    for verdicts in RuleIndex([rule], compiler.layouts["s"]).evaluate(rows):
        matches.update(verdicts.rows)
        undecided.update(verdicts.undecided)
    return matches, undecided


def test_compiled_conditions_have_the_truth_of_spark(spark: SparkSession) -> None:
    conditions = Conditions(SEED)
    texts = conditions.texts()
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * len(texts), ARROW_TYPES["timestamp"])
    numbers = pa.array(range(len(texts)), pa.int32())
    rows = pa.table({"ts": times, "n": numbers, "t": pa.array(texts)})
    verdicts: dict[str, tuple[set[int], set[int]]] = {}
    for condition in conditions:
        try:
            verdicts[condition] = _evaluate(condition, rows)
        except (SparkRequired, Unsupported):
            continue
        if len(verdicts) == _COUNT:
            break
    spark.createDataFrame(rows).createOrReplaceTempView("s")
    compiled = list(verdicts)
    for start in range(0, _COUNT, _STATEMENT):
        part = compiled[start : start + _STATEMENT]
        wheres = [parse(f"SELECT n FROM s WHERE {text}").args["where"].this for text in part]
        columns = ", ".join(where.sql(dialect="spark") for where in wheres)
        truths = spark.sql(f"SELECT array({columns}) AS truths FROM s ORDER BY n").toArrow()
        for condition, of_rows in zip(
            part, zip(*truths["truths"].to_pylist(), strict=True), strict=True
        ):
            expected = {number for number, truth in enumerate(of_rows) if truth}
            matches, undecided = verdicts[condition]
            wrong = matches ^ (expected - undecided)
            assert not wrong, (condition, [texts[number] for number in sorted(wrong)])
    spark.catalog.dropTempView("s")
