"""Conditions of rules: DuckDB and Spark agree, over answers with nulls, NaN, no rows and many rows."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from archiver.read.reader import Reader
from recall.engines.duckdb.condition import evaluate_condition
from recall.engines.spark.engine import SparkEngine
from recall.errors import SparkRequired
from recall.event_plans import Condition
from recall.requests import RecallEvent
from recall.statements import DuckDBStatements

pytestmark = pytest.mark.services

TYPES = {"cpu": "double", "n": "bigint", "host": "string", "ok": "boolean"}
COLUMNS = {"mean": "double", "sd": "double", "n": "bigint", "site": "string"}
_NUMBERS = [
    "event.cpu",
    "event.n",
    "norm.mean",
    "norm.sd",
    "norm.n",
    "3",
    "(norm.mean + 3 * norm.sd)",
    "-norm.mean",
]
_NUMBERS += ["(event.cpu - norm.mean)", "other.n", "norm.mean / 2", "0.5 + norm.sd", "norm.n % 3"]
_NUMBERS += ["CASE WHEN event.ok THEN norm.mean WHEN norm.n > 2.5 THEN 0.5 END"]
_COMPARED = st.builds(
    "{} {} {}".format,
    st.sampled_from(_NUMBERS),
    st.sampled_from("= <> < <= > >=".split()),
    st.sampled_from(_NUMBERS),
)
_SIMPLE = _COMPARED | st.sampled_from(
    [
        "event.host = norm.site",
        "event.ok",
        "norm.mean IS NULL",
        "norm.n IS NOT NULL",
        "NOT event.ok",
        "norm.site > 'a'",
        "norm.site LIKE '%a_'",
        r"norm.site <> 'it\'s \\ here'",
        "event.ok < (norm.n = 3)",
        "norm.n > 2.5",
        "norm.n = NULL",
    ]
)
_CONDITIONS = _SIMPLE | st.builds(
    "({}) {} ({})".format, _SIMPLE, st.sampled_from(["AND", "OR"]), _SIMPLE
)
_DOUBLES = st.sampled_from([None, "NaN", -0.0, 0.0, 1.5, 95.0, "Infinity"])
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "mean": _DOUBLES,
            "sd": _DOUBLES,
            "n": st.sampled_from([None, 0, 3, 1 << 40]),
            "site": st.sampled_from([None, "a", "b"]),
        }
    ),
    max_size=3,
)
_EVENTS = st.fixed_dictionaries(
    {
        "cpu": _DOUBLES,
        "n": st.sampled_from([None, 0, 7]),
        "host": st.sampled_from([None, "a"]),
        "ok": st.sampled_from([None, True, False]),
    }
)


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    def relations(name: str) -> Any:
        raise AssertionError(name)

    return SparkEngine(spark.newSession, Reader(tmp_path_factory.mktemp("none"), []), relations)


def _condition(where: str) -> Condition:
    return Condition(where=where, judged={}, attributes=TYPES)


@pytest.mark.slow
@settings(
    max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(_CONDITIONS, _EVENTS, _ROWS, _ROWS)
def test_duckdb_and_spark_agree_on_conditions(
    engine: SparkEngine,
    where: str,
    event: dict[str, Any],
    norm: list[dict[str, Any]],
    other: list[dict[str, Any]],
) -> None:
    asked = RecallEvent(UUID(int=1), 0, {}, event)
    answers = {"norm": (norm, COLUMNS), "other": (other, COLUMNS)}
    verdict = evaluate_condition(_condition(where), asked, answers, DuckDBStatements())
    assert verdict == engine.evaluate_condition(_condition(where), asked, answers)


@pytest.mark.parametrize(
    "where",
    [
        "norm.mean / norm.n > 1",
        "abs(norm.mean) > 1",
        "norm.n + 0.5 > 1",
        "event.host > 3",
        "norm.n",
        "cpu > 1",
    ],
)
def test_unsupported_condition_is_evaluated_by_spark(where: str) -> None:
    with pytest.raises(SparkRequired):
        evaluate_condition(
            _condition(where),
            RecallEvent(UUID(int=1), 0, {}, {"cpu": 1.0}),
            {"norm": ([], COLUMNS)},
            DuckDBStatements(),
        )
