"""Regular expressions whose steps are counted have Spark's results, and end where Spark's do not.

A session of Spark without the extension evaluates the same statements.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.sampled import every

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


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """A session that evaluates patterns as Spark does."""
    context: Any = spark.sparkContext
    settings = context._jsc.sc().conf()
    extensions = settings.get("spark.sql.extensions")
    settings.remove("spark.sql.extensions")
    try:
        session = context._jvm.org.apache.spark.sql.classic.SparkSession(context._jsc.sc())
        session.sessionState()
    finally:
        settings.set("spark.sql.extensions", extensions)
    return SparkSession(context, session)


def _assert_same_results(
    spark: SparkSession,
    plain: SparkSession,
    build: Callable[[str], str],
    patterns: Sequence[str] = _PATTERNS,
) -> None:
    """`build`: an expression over the column `v` and a pattern, a constant or the column `p`."""
    rows = [
        (value, number, pattern) for value in _VALUES for number, pattern in enumerate(patterns)
    ]
    constants = ", ".join(build(_quote(pattern)) for pattern in patterns)
    sql = f"SELECT v, p, array({constants})[number] AS constant, {build('p')} AS of_row FROM {{t}}"
    schema = "v string, number int, p string"
    assert "counted" in _plan(spark.sql(sql, t=spark.createDataFrame(rows, schema)))
    expected = plain.sql(sql, t=plain.createDataFrame(rows, schema))
    assert "counted" not in _plan(expected)
    results = spark.sql(sql, t=spark.createDataFrame(rows, schema)).collect()
    for row, expected_row in zip(results, expected.collect(), strict=True):
        assert row == expected_row, (row["p"], row["v"])
        assert row["constant"] == row["of_row"], (row["p"], row["v"])


def _plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


@pytest.mark.slow
def test_search_has_the_same_results(spark: SparkSession, plain: SparkSession) -> None:
    _assert_same_results(spark, plain, lambda pattern: f"v RLIKE {pattern}")


@pytest.mark.slow
def test_extracted_groups_are_the_same(spark: SparkSession, plain: SparkSession) -> None:
    _assert_same_results(spark, plain, lambda pattern: f"regexp_extract(v, {pattern}, 0)")
    groups = ", ".join(f"regexp_extract(v, {{0}}, {number})" for number in range(4))
    _assert_same_results(spark, plain, f"array({groups})".format, [r"(\w+)=(\w+)?(z)?"])


@pytest.mark.slow
def test_replaced_texts_are_the_same(spark: SparkSession, plain: SparkSession) -> None:
    results = ", ".join(f"regexp_replace(v, {{0}}, '{text}')" for text in ("", "-", "[$0]"))
    results += "".join(f", regexp_replace(v, {{0}}, '-', {start})" for start in (2, 3, 99))
    _assert_same_results(spark, plain, f"array({results})".format)


@pytest.mark.slow
def test_split_texts_are_the_same(spark: SparkSession, plain: SparkSession) -> None:
    results = ", ".join(f"split(v, {{0}}, {limit})" for limit in (-1, 0, 1, 2))
    _assert_same_results(spark, plain, f"array({results})".format)


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "regexp_count(v, {0})",
        "regexp_instr(v, {0})",
        "regexp_substr(v, {0})",
        "regexp_extract_all(v, {0}, 0)",
        "(v COLLATE UTF8_LCASE) RLIKE {0}",
        "split(v COLLATE UTF8_LCASE, {0})",
    ],
)
def test_other_functions_have_the_same_results(
    spark: SparkSession, plain: SparkSession, expression: str
) -> None:
    _assert_same_results(spark, plain, expression.format)


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression", ["v LIKE {0}", "v ILIKE {0}", "v LIKE {0} ESCAPE '='", "v NOT LIKE {0}"]
)
def test_texts_like_patterns_are_the_same(
    spark: SparkSession, plain: SparkSession, expression: str
) -> None:
    patterns = [
        "",
        "%",
        "a%",
        "%a%b%",
        "%a%%_%",
        "_%_%_%",
        "%k%y%v%",
        "%K%Y%V%",
        "%.%b%*%",
        "%==%%",
    ]
    _assert_same_results(spark, plain, expression.format, patterns)


@pytest.mark.parametrize(
    "expression",
    every(
        12,
        [
            "v LIKE ALL ({})",
            "v LIKE ANY ({})",
            "v NOT LIKE ANY ({})",
            "v NOT LIKE ALL ({})",
            "v ILIKE ANY ({})",
            "v ILIKE ALL ({})",
        ],
    ),
)
def test_texts_like_several_patterns_are_the_same(
    spark: SparkSession, plain: SparkSession, expression: str
) -> None:
    many = ", ".join(f"'%x%{number}%y%'" for number in range(3_000))
    lists = [
        "'%a%b%y%', 'a'",
        "'%a%b%y%', NULL",
        "'%', '%a%_%_%'",
        "'%a%', '%b'",
        "'%K%日%本%'",
        many,
    ]
    texts = ", ".join(expression.format(patterns) for patterns in lists)
    _assert_same_rows(spark, plain, f"SELECT v, {texts} FROM {{t}}")


def test_maps_of_texts_are_the_same(spark: SparkSession, plain: SparkSession) -> None:
    texts = ["", "key=value; other=1", "a=1,b=2;c", "aBcA1", "日®=İ,ſ", None]
    policy = "spark.sql.mapKeyDedupPolicy"
    for session in (spark, plain):
        with pytest.raises(PySparkException, match="DUPLICATED_MAP_KEY"):
            session.sql("SELECT str_to_map('a:1,a:2')").collect()
        session.conf.set(policy, "LAST_WIN")
    try:
        _assert_same_rows(
            spark,
            plain,
            "SELECT v, str_to_map(v) AS a, str_to_map(v, '[;,] *', '=') AS b, str_to_map(v, p, p) AS c, "
            "str_to_map(v, concat('; ', '*'), '(?i)KEY|=') AS d, str_to_map(v, NULL, '=') AS e, "
            "str_to_map(v COLLATE UTF8_LCASE, ';|B+c', 'A|=') AS f, str_to_map(left(v, 3), '', '') AS g FROM {t}",
            [(text, ";|,") for text in texts],
        )
    finally:
        for session in (spark, plain):
            session.conf.unset(policy)


def test_values_of_queries_of_urls_are_the_same(spark: SparkSession, plain: SparkSession) -> None:
    urls = [
        "http://h/p?k=1&kk=2&K=",
        "http://h/p",
        "http://h?key=日",
        "mailto:a",
        "http://h/a b?k=1",
    ]
    keys = ["k", "k+", "", "(k)", ".*", "K", "(k"]
    rows = [(url, key) for url in urls for key in keys[:-1]]
    sql = (
        "SELECT try_parse_url(v, 'QUERY', p) AS a, try_parse_url(v, 'HOST', p) AS b, "
        "try_parse_url(v, 'QUERY', 'k') AS c, parse_url(v, 'PATH', p) AS d, "
        "try_parse_url(v, 'QUERY', NULL) AS e FROM {t}"
    )
    _assert_same_rows(spark, plain, sql, rows)
    for session in (spark, plain):
        with pytest.raises(PySparkException, match="INVALID_URL"):
            session.sql("SELECT parse_url('http://h/a b?k=1', 'QUERY', 'k')").collect()


def _assert_same_rows(
    spark: SparkSession,
    plain: SparkSession,
    sql: str,
    rows: Sequence[tuple[str | None, str]] = tuple((value, "a") for value in (*_VALUES, None)),
) -> None:
    frames = [
        session.sql(sql, t=session.createDataFrame(rows, "v string, p string"))
        for session in (spark, plain)
    ]
    assert ["counted" in _plan(frame) for frame in frames] == [True, False]
    results, expected = [frame.collect() for frame in frames]
    assert results == expected


def test_null_stays_null(spark: SparkSession) -> None:
    sql = (
        "SELECT v RLIKE 'a' AS a, regexp_extract(v, 'a', 0) AS b, regexp_replace(v, 'a', 'b') AS c, "
        "split(v, 'a') AS d FROM VALUES (CAST(NULL AS string)) AS t(v)"
    )
    assert tuple(spark.sql(sql).collect()[0]) == (None, None, None, None)


@pytest.mark.parametrize(
    "expression",
    [
        "v RLIKE '('",
        "regexp_count(v, p)",
        "regexp_extract(v, 'a', 1)",
        "regexp_extract_all(v, 'a', 1)",
        "regexp_replace(v, 'a', '$1')",
    ],
)
def test_errors_are_those_of_spark(
    spark: SparkSession, plain: SparkSession, expression: str
) -> None:
    sql = f"SELECT {expression} FROM {{t}}"
    messages = []
    for session in (spark, plain):
        table = session.createDataFrame([("a", "(")], "v string, p string")
        with pytest.raises(PySparkException) as error:
            session.sql(sql, t=table).collect()
        messages.append(error.value.getCondition())
    assert messages[0] == messages[1] is not None


@pytest.mark.parametrize(
    "expression",
    ["v RLIKE p", "split(v, p)", "str_to_map(v, p)", "parse_url('http://a/?b', 'QUERY', p)"],
)
def test_invalid_pattern_of_a_row_is_named(spark: SparkSession, expression: str) -> None:
    """Spark itself throws an error of Java."""
    table = spark.createDataFrame([("a", "(")], "v string, p string")
    with pytest.raises(PySparkException, match=r"INVALID_PARAMETER_VALUE.PATTERN"):
        spark.sql(f"SELECT {expression} FROM {{t}}", t=table).collect()


_FUNCTIONS = [
    "v RLIKE {0}",
    "regexp(v, {0})",
    "regexp_like(v, {0})",
    "regexp_count(v, {0})",
    "regexp_instr(v, {0})",
    "regexp_substr(v, {0})",
    "regexp_extract(v, {0}, 1)",
    "regexp_extract_all(v, {0}, 1)",
    "regexp_replace(v, {0}, '')",
    "split(v, {0})",
]


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
        *(
            pytest.param(expression.format(pattern), marks=pytest.mark.slow)
            for expression in _FUNCTIONS
            for pattern in ("'(x+x+)+y'", "p", "nvl(p, 'a')", "if(v <> '', p, 'a')")
        ),
        *(
            pytest.param(f"v RLIKE {pattern}", marks=pytest.mark.slow)
            for pattern in ("ifnull(NULL, '(x+x+)+y')", "nullif(p, 'a')", "concat(p, 'y')")
        ),
        "regexp_count(v, nvl(NULL, '(x+x+)+y'))",
        "v RLIKE CASE WHEN v = '' THEN 'a' ELSE p END",
        "v COLLATE UTF8_LCASE RLIKE '(X+X+)+Y'",
        "v LIKE '%x%x%x%x%x%x%x#'",
        "v ILIKE concat('%X%x%x%x%x%x%x', '#')",
        "exists(array(v), e -> e RLIKE p)",
        "v LIKE ANY ('a', '%x%x%x%x%x%x%x#')",
        "v NOT LIKE ALL ('a', '%x%x%x%x%x%x%x#')",
        "str_to_map(v, p, ':')",
        "str_to_map(v, ',', '(x+x+)+y')",
        "parse_url('http://a/?' || v, 'QUERY', '(x+x+)+y')",
        "try_parse_url('http://a/?' || v, 'QUERY', p)",
    ],
)
def test_pattern_that_backtracks_for_minutes_is_stopped(
    spark: SparkSession, expression: str
) -> None:
    sql = f"SELECT {expression} FROM VALUES (repeat('x', 3000), '(x+x+)+y') AS t(v, p)"
    with pytest.raises(_ERRORS, match=r"needs more than .* steps for a value of 3,0"):
        spark.sql(sql).collect()
    table = spark.createDataFrame([("x" * 3000, "(x+x+)+y")], "v string, p string")
    with pytest.raises(_ERRORS, match="needs more than"):
        spark.sql(f"SELECT {expression} FROM {{t}}", t=table).collect()


def test_pattern_of_lines_is_named_in_one_line(spark: SparkSession) -> None:
    table = spark.createDataFrame([("x" * 3000, "(x+x+)+\n\ry")], "v string, p string")
    with pytest.raises(_ERRORS, match=r"\(x\+x\+\)\+\\n\\ry needs more than"):
        spark.sql("SELECT v RLIKE p FROM {t}", t=table).collect()


def test_search_for_text_between_any_texts_takes_linear_time(spark: SparkSession) -> None:
    value = "ab" * 500_000
    table = spark.createDataFrame([(value,)], "v string")
    pattern = "(?iu).*(xyz|zyx|yzx).*"
    assert spark.sql(f"SELECT v RLIKE '{pattern}' AS m FROM {{t}}", t=table).first()[0] is False
