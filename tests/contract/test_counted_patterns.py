"""Regular expressions whose steps are counted have Spark's results, and end where Spark's do not.

Spark itself evaluates a pattern that is no constant: both are compared in one statement.
"""

import time
from collections.abc import Callable, Sequence

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.services

_ERRORS = (PySparkException, Py4JJavaError)

_VALUES = [
    "",
    "a",
    "ab",
    "xaby",
    "a\nb",
    "a\r\nb\n",
    "line\u2028end",
    "A.B*C",
    "İıſK®日本",
    "😀a😀",
    "a,b,,c,,",
    ".*",
    "\\Q.*\\E",
    "key=value; other=1",
    "x" * 300,
]
_PATTERNS = [
    "a",
    ".*a.*",
    "(?i).*(A|b).*",
    "(?iu).*(ſ|k).*",
    "(?s).*a.b.*",
    "^.*b$",
    ".*",
    ".*?a",
    ".*+a",
    r"a\.*",
    r"a\\.*",
    r"\Q.*\E.*",
    "(?x) .* a # .*",
    "[.*]",
    "a|.*",
    ".*|a",
    r"(\w+)=(\w+)?(z)?",
    r"\b\w",
    ",",
    "(?=a)",
    "😀",
    "(.)(.).*",
]


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _assert_same_results(
    spark: SparkSession, build: Callable[[str], str], patterns: Sequence[str] = _PATTERNS
) -> None:
    """`build`: an expression over the column `v` and a pattern."""
    rows = [
        (value, number, pattern) for value in _VALUES for number, pattern in enumerate(patterns)
    ]
    table = spark.createDataFrame(rows, "v string, number int, p string")
    counted = ", ".join(build(_quote(pattern)) for pattern in patterns)
    sql = f"SELECT v, p, array({counted})[number] AS counted, {build('p')} AS plain FROM {{t}}"
    for row in spark.sql(sql, t=table).collect():
        assert row["counted"] == row["plain"], (row["p"], row["v"])


@pytest.mark.slow
def test_search_has_the_same_results(spark: SparkSession) -> None:
    _assert_same_results(spark, lambda pattern: f"v RLIKE {pattern}")


@pytest.mark.slow
def test_extracted_groups_are_the_same(spark: SparkSession) -> None:
    _assert_same_results(spark, lambda pattern: f"regexp_extract(v, {pattern}, 0)")
    groups = ", ".join(f"regexp_extract(v, {{0}}, {number})" for number in range(4))
    _assert_same_results(spark, f"array({groups})".format, [r"(\w+)=(\w+)?(z)?"])


@pytest.mark.slow
def test_replaced_texts_are_the_same(spark: SparkSession) -> None:
    results = ", ".join(f"regexp_replace(v, {{0}}, '{text}')" for text in ("", "-", "[$0]"))
    _assert_same_results(spark, f"array({results})".format)


@pytest.mark.slow
def test_split_texts_are_the_same(spark: SparkSession) -> None:
    results = ", ".join(f"split(v, {{0}}, {limit})" for limit in (-1, 0, 1, 2))
    _assert_same_results(spark, f"array({results})".format)


def test_null_stays_null(spark: SparkSession) -> None:
    sql = (
        "SELECT v RLIKE 'a' AS a, regexp_extract(v, 'a', 0) AS b, regexp_replace(v, 'a', 'b') AS c, "
        "split(v, 'a') AS d FROM VALUES (CAST(NULL AS string)) AS t(v)"
    )
    assert tuple(spark.sql(sql).collect()[0]) == (None, None, None, None)


def test_invalid_pattern_is_reported_by_spark(spark: SparkSession) -> None:
    with pytest.raises(PySparkException):
        spark.sql("SELECT v RLIKE '(' FROM VALUES ('a') AS t(v)").collect()


@pytest.mark.parametrize(
    "expression",
    [
        "v RLIKE '(.*)(.*)(.*)(.*)(.*)(.*)#'",
        "regexp_extract(v, '(x+x+)+y', 1)",
        "regexp_replace(v, '(x+x+)+y', '')",
        "split(v, '(x+x+)+y')",
        "v RLIKE concat('(x+x+)+', 'y')",
        "v RLIKE '(x+x+)' || lower('+Y')",
        "regexp_extract(v, coalesce(NULL, '(x+x+)+y'), 1)",
        "regexp_like(v, '(x+x+)+y')",
    ],
)
def test_pattern_that_backtracks_for_minutes_is_stopped(
    spark: SparkSession, expression: str
) -> None:
    started_at = time.monotonic()
    with pytest.raises(_ERRORS, match=r"needs more than .* steps for a value of 3,000"):
        spark.sql(f"SELECT {expression} FROM VALUES (repeat('x', 3000)) AS t(v)").collect()
    table = spark.createDataFrame([("x" * 3000,)], "v string")
    with pytest.raises(_ERRORS, match="needs more than"):
        spark.sql(f"SELECT {expression} FROM {{t}}", t=table).collect()
    assert time.monotonic() - started_at < 60


def test_search_for_text_between_any_texts_takes_linear_time(spark: SparkSession) -> None:
    value = "ab" * 500_000
    table = spark.createDataFrame([(value,)], "v string")
    pattern = "(?iu).*(xyz|zyx|yzx).*"
    assert spark.sql(f"SELECT v RLIKE '{pattern}' AS m FROM {{t}}", t=table).first()[0] is False
