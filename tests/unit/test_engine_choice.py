"""Who reads a piece of history: what was measured decides, within what is known to be answered alike."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.engines.cost_model import SPARK_START_SECONDS, EngineCosts
from recall.engines.router import explain_engine
from recall.engines.template import Template
from recall.requests import SqlQuestion

COLUMNS = {
    "s": {"ts": "timestamp", "host": "string", "v": "double", "n": "bigint", "d": "decimal(9,2)"}
}


def template(sql: str, attributes: dict[str, str] | None = None) -> Template:
    kinds = attributes or {"host": "string"}
    return Template(SqlQuestion(None, 1.0, "newest", sql, {"s": "ts"}, ("r",), {}, kinds, {}, {}))


@given(
    st.floats(0.001, 0.1), st.floats(0.0005, 0.02), st.floats(0.05, 0.5), st.floats(0.0005, 0.02)
)
def test_what_was_sooner_is_asked(
    fixed: float, each: float, other: float, other_each: float
) -> None:
    """After some measurements of both the sooner one is chosen, wherever they are well apart."""
    costs = EngineCosts()
    for size in [0.1, 1.0, 10.0, 50.0, 100.0] * 8:
        costs.model_for("q", "local").update(size, fixed + each * size)
        costs.model_for("q", "spark").update(size, other + other_each * size)
    for size in (0.5, 5.0, 80.0):
        here, there = fixed + each * size, other + other_each * size
        if max(here, there) > 1.2 * min(here, there):
            assert costs.cheaper_engine("q", size, True) == ("local" if here < there else "spark")


def test_the_start_of_spark_counts() -> None:
    costs = EngineCosts()
    assert costs.cheaper_engine("q", 300.0, spark_running=True) == "spark"
    assert costs.cheaper_engine("q", 300.0, spark_running=False) == "local"
    costs.model_for("q", "local").update(300.0, 10 * SPARK_START_SECONDS)
    assert costs.cheaper_engine("q", 300.0, spark_running=False) == "spark"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT s.v AS v FROM s LIMIT 3", "plain rows"),
        ("SELECT count(*) AS n FROM s JOIN r ON r.host = s.host", "relations"),
        ("SELECT count(*) AS n FROM (SELECT * FROM s) s", "subqueries"),
        ("SELECT sum(s.d) AS n FROM s", r"the column d is of type decimal\(9,2\)"),
        ("SELECT median(s.v) AS n FROM s", "ARRAY_AGG|lists of values|COLLECT_LIST"),
        ("SELECT count(DISTINCT s.v) AS n FROM s", "distinct values of fractions"),
        ("SELECT count(*) AS n FROM s GROUP BY s.v + 1", "groups by fractions"),
        ("SELECT count(*) AS n FROM s WHERE upper(s.host) = 'A'", "UPPER"),
    ],
)
def test_what_spark_alone_reads_says_why(sql: str, reason: str) -> None:
    found = explain_engine(template(sql), COLUMNS, "auto")
    assert found.engine == "spark"
    assert re.search(reason, found.reason), found.reason


def test_what_both_may_read() -> None:
    sql = "SELECT avg(s.v) AS mean, count(DISTINCT s.host) AS n FROM s WHERE s.host LIKE 'a%' AND s.n BETWEEN 1 AND 3"
    assert explain_engine(template(sql), COLUMNS, "auto").engine == "either"
    assert explain_engine(template(sql), COLUMNS, "local").engine == "local"
    assert explain_engine(template(sql), COLUMNS, "spark").engine == "spark"
    assert (
        "attribute at" in explain_engine(template(sql, {"at": "timestamp"}), COLUMNS, "auto").reason
    )
