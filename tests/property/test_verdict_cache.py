"""Queries that differ in constants get the verdict of a full validation, and few are validated."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from recall.errors import QueryRejected
from recall.sandbox import harden_session, validation
from recall.sandbox.verdict_cache import VerdictCache
from tests.progress import Progress

pytestmark = pytest.mark.services

_COLUMNS = (
    "ts timestamp, host string, n bigint, k int, cpu double, money decimal(20, 4), up boolean, "
    "day date"
)
# Constants that look similar, some of which decide what a query means.
_CONSTANTS = """
5 7 42 -5 0 007 3000000000 99999999999999999999 0.5 0.50 99.5 123.25 1e3 5L (1) NULL true
9999999999999999999.5 1000000000000000000.5
'a' 'b' 'nan' '5' '6.5' '' 'a''b' '--' '/*' r'a' 'ä' '(' X'00' DATE'2026-01-01' '2026-01-01'
'yyyy' 'XXXX' 'aINT'
""".split()
_CONSTANTS_WITH_BLANKS = [
    "'10 seconds'",
    "'5 minutes'",
    "'1 month'",
    "'a INT'",
    "INTERVAL '1' DAY",
    "'x' OR reflect('a', 'b')",
]
CONSTANTS = st.sampled_from([*_CONSTANTS, *_CONSTANTS_WITH_BLANKS])
TEMPLATES = st.sampled_from(
    [
        "SELECT host, ts FROM t WHERE host = {} AND cpu > {}",
        "SELECT host, ts FROM t WHERE NOT (n <= {} OR up) AND ts >= {}",
        "SELECT host, ts FROM t WHERE money < {} AND k <> {}",
        "SELECT host, ts, n > {} AS x FROM t WHERE n > {}",
        "SELECT host, ts, {} FROM t WHERE {} = host",
        "SELECT host, ts FROM t WHERE host RLIKE {} AND host = {}",
        "SELECT host, ts FROM t WHERE round(cpu, {}) > {}",
        "SELECT host, ts FROM t WHERE from_json(host, {}).a > {}",
        "SELECT host, ts FROM t WHERE n IN ({}, 3) AND cpu BETWEEN 1 AND {}",
        "SELECT host, ts FROM t WHERE date_format(ts, {}) = {}",
        "SELECT host, ts /* {} */ FROM t WHERE /* ' */ cpu > {}",
        "SELECT host, ts FROM (SELECT * FROM t WHERE k = {}) WHERE n = {}",
        "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, {}) HAVING avg(cpu) > {}",
        "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, '1 minute') "
        "HAVING avg(cpu) > {} AND host = {}",
        "SELECT {} AS c, window.end AS ts FROM t GROUP BY ALL HAVING c = {}",
        "SELECT n > {} AS c, max(ts) AS ts FROM t GROUP BY c HAVING n > {}",
        "SELECT host, max(ts) AS ts FROM t GROUP BY host, n > {} HAVING n > {}",
        "SELECT max(ts) AS ts FROM t GROUP BY GROUPING SETS ((host), (host, n > {})) HAVING n > {}",
        "SELECT max(ts) AS ts FROM t GROUP BY CUBE (host, n > {}) HAVING n > {}",
        "SELECT max(ts) AS ts FROM t GROUP BY ROLLUP (host, {}) HAVING host = {}",
        "SELECT host, ts FROM t WHERE day > {} AND up = {}",
        "SELECT host, ts FROM t WHERE length(version()) > {} AND n > {}",
        "SELECT host, ts FROM t ORDER BY {} LIMIT {}",
    ]
)
_CONSTANT_PAIRS = st.lists(st.tuples(CONSTANTS, CONSTANTS), min_size=2, max_size=6)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    session = harden_session(spark.newSession())
    session.createDataFrame([], _COLUMNS).createOrReplaceTempView("t")
    return session


@pytest.fixture
def validated_queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are validated in full."""
    queries: list[str] = []
    validate_query = validation.validate_query

    def validate_and_record(session: SparkSession, sql: str) -> object:
        queries.append(sql)
        return validate_query(session, sql)

    monkeypatch.setattr(validation, "validate_query", validate_and_record)
    return queries


def _verdict(validate: Callable[[str], object], sql: str) -> str:
    try:
        return f"passes: {validate(sql)}"
    except QueryRejected as error:
        return f"rejected: {error} {error.line}:{error.column} {error.fragment}"


def _assert_same_verdicts(
    session: SparkSession, template: str, pairs: list[tuple[str, str]]
) -> None:
    cache = VerdictCache(session)

    def validate(sql: str) -> object:
        return validation.validate_query(session, sql)

    for pair in pairs:
        sql = template.format(*pair)
        assert _verdict(cache.validate, sql) == _verdict(validate, sql), sql


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@example(
    template="SELECT host, ts FROM t WHERE host = {} AND cpu > {}",
    pairs=[("'a'", "5"), ("'b'", "7")],
)
# HAVING finds the condition among the groups, or does not.
@example(
    template="SELECT max(ts) AS ts FROM t GROUP BY host, n > {} HAVING n > {}",
    pairs=[("5", "5"), ("5", "7")],
)
@example(
    template="SELECT n > {}, max(ts) AS ts FROM t GROUP BY ALL HAVING n > {}",
    pairs=[("5", "5"), ("5", "7")],
)
@example(
    template="SELECT host, ts FROM t WHERE n = {} AND cpu > {}",
    pairs=[("'5'", "5"), ("'nan'", "5"), ("'a'", "7")],
)
# The analyser decides the first itself, as no length is so large, and drops the call.
@example(
    template="SELECT host, ts FROM t WHERE length(version()) > {} AND cpu > {}",
    pairs=[("9999999999999999999.5", "5"), ("1000000000000000000.5", "5")],
)
@example(
    template="SELECT host, `>`(n, {}) AS c, max(ts) AS ts FROM t "
    "GROUP BY host, `>`(n, 5) HAVING n > {}",
    pairs=[("5", "5"), ("5", "6")],
)
@given(template=TEMPLATES, pairs=_CONSTANT_PAIRS)
def test_cached_verdict_equals_full_validation(
    session: SparkSession, template: str, pairs: list[tuple[str, str]]
) -> None:
    _assert_same_verdicts(session, template, pairs)


PROGRESS = Progress("queries", 250)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=1500, deadline=None)
@given(template=TEMPLATES, pairs=_CONSTANT_PAIRS)
def test_cached_verdict_equals_full_validation_at_length(
    session: SparkSession, template: str, pairs: list[tuple[str, str]]
) -> None:
    _assert_same_verdicts(session, template, pairs)
    PROGRESS.step()


@pytest.mark.parametrize(
    ("template", "validations"),
    [
        ("SELECT host, ts FROM t WHERE host = 'h{0}' AND NOT cpu > 1{0:02}", 1),
        (
            "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, '1 minute') "
            "HAVING max(n) > 1{0:02}.5",
            1,
        ),
        # One for each number of digits, and for each sign.
        ("SELECT host, ts FROM t WHERE cpu > {0}", 2),
        ("SELECT host, ts FROM t WHERE cpu > {0} - 5", 20),
        ("SELECT host, ts FROM t WHERE host LIKE 'h{0}%'", 20),
        pytest.param(
            "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, '{0} minutes') "
            "HAVING max(n) > 3",
            20,
            marks=pytest.mark.slow,
        ),
        pytest.param("SELECT host, ts, {0} AS x FROM t WHERE n > 3", 20, marks=pytest.mark.slow),
        pytest.param(
            "SELECT host, ts FROM t WHERE host = 'ä' AND cpu > 1{0:02}", 20, marks=pytest.mark.slow
        ),
    ],
)
def test_equivalent_queries_are_validated_once(
    session: SparkSession, validated_queries: list[str], template: str, validations: int
) -> None:
    cache = VerdictCache(session)
    queries = [template.format(number) for number in range(1, 21)]
    for sql in [*queries, *queries]:
        cache.validate(sql)
    # Verdicts on queries with characters beyond ASCII are not cached at all.
    repetitions = 1 if queries[0].isascii() else 2
    assert len(validated_queries) == validations * repetitions


def test_rejections_are_not_cached(session: SparkSession, validated_queries: list[str]) -> None:
    cache = VerdictCache(session)
    for number in range(3):
        with pytest.raises(QueryRejected, match="reflect is not allowed"):
            cache.validate(f"SELECT host, ts FROM t WHERE reflect('a', 'b') = 'x{number}'")
    assert len(validated_queries) == 3
