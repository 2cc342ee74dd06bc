"""Queries that are validated together get the verdicts of each alone."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from recall.errors import QueryRejected
from recall.sandbox import QueryValidator, harden_session, validate_query, validation
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


def _verdict(validate: Callable[[str], object], sql: str) -> str:
    try:
        return f"passes: {validate(sql)}"
    except QueryRejected as error:
        return f"rejected: {error} {error.line}:{error.column} {error.fragment}"


def _assert_same_verdicts(
    session: SparkSession, template: str, pairs: list[tuple[str, str]]
) -> None:
    validator = QueryValidator(session)
    queries = [template.format(*pair) for pair in pairs]
    validator.prepare(queries)
    for sql in queries:
        alone = _verdict(partial(validate_query, session), sql)
        assert _verdict(validator.validate, sql) == alone, sql


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
def test_verdict_in_a_batch_equals_that_alone(
    session: SparkSession, template: str, pairs: list[tuple[str, str]]
) -> None:
    _assert_same_verdicts(session, template, pairs)


PROGRESS = Progress("queries", 250)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=1500, deadline=None)
@given(template=TEMPLATES, pairs=_CONSTANT_PAIRS)
def test_verdict_in_a_batch_equals_that_alone_at_length(
    session: SparkSession, template: str, pairs: list[tuple[str, str]]
) -> None:
    _assert_same_verdicts(session, template, pairs)
    PROGRESS.step()


def test_a_rejected_query_does_not_reject_its_batch(session: SparkSession) -> None:
    validator = QueryValidator(session)
    rejected = [
        "SELECT host, ts FROM t WHERE reflect('a', 'b') = 'x'",
        "EXECUTE IMMEDIATE 'SELECT host, ts FROM t'",
        "SELECT host, ts FROM",
        "SELECT host, ts FROM t WHERE unknown = 1",
        "SELECT host, ts FROM t WHERE n = host",
        "SELECT host, ts FROM t WHERE rand() < 0.5",
    ]
    allowed = [f"SELECT host, ts FROM t WHERE host LIKE 'h{number}%'" for number in range(3)]
    validator.prepare([allowed[0], *rejected, *allowed])
    for sql in allowed:
        assert validator.validate(sql).fieldNames() == ["host", "ts"]
    for sql in rejected:
        with pytest.raises(QueryRejected):
            validator.validate(sql)


def test_queries_are_validated_by_one_batch(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = QueryValidator(session)
    queries = [f"SELECT host, ts FROM t WHERE host LIKE '{number}%'" for number in range(100)]
    validator.prepare(queries)
    monkeypatch.delattr(validation, "validate_query")
    for sql in queries:
        assert validator.validate(sql).fieldNames() == ["host", "ts"]


def test_a_batch_that_takes_too_long_leaves_its_queries_to_be_validated_alone(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = QueryValidator(session)
    monkeypatch.setattr(validation, "_CPU_LIMIT", 0.0)
    validator.prepare(["SELECT host, ts FROM t WHERE host = 'a'"])
    monkeypatch.undo()
    assert validator.validate("SELECT host, ts FROM t WHERE host = 'a'") is not None
