"""Queries that differ in constants: the gate says of each what it would say of it alone, and looks
at few of them.
"""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from recall.errors import QueryRejected
from recall.sandbox import sandbox as gate
from recall.sandbox import verdict_cache as alike
from recall.sandbox.verdict_cache import VerdictCache
from tests.progress import Progress

pytestmark = pytest.mark.spark

_COLUMNS = "ts timestamp, host string, n bigint, k int, cpu double, money decimal(20, 4), up boolean, day date"
# Constants that look alike, in places that are alike and in such as decide what a query is.
_WORDS = """
5 7 42 -5 0 007 3000000000 99999999999999999999 0.5 0.50 99.5 123.25 1e3 5L (1) NULL true
9999999999999999999.5 1000000000000000000.5
'a' 'b' 'nan' '5' '6.5' '' 'a''b' '--' '/*' r'a' 'ä' '(' X'00' DATE'2026-01-01' '2026-01-01' 'yyyy' 'XXXX' 'aINT'
""".split()
_PHRASES = [
    "'10 seconds'",
    "'5 minutes'",
    "'1 month'",
    "'a INT'",
    "INTERVAL '1' DAY",
    "'x' OR reflect('a', 'b')",
]
CONSTANTS = st.sampled_from([*_WORDS, *_PHRASES])
TEXTS = st.sampled_from(
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
        "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, '1 minute') HAVING "
        "avg(cpu) > {} AND host = {}",
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
_MANY = st.lists(st.tuples(CONSTANTS, CONSTANTS), min_size=2, max_size=6)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    made = gate.harden_session(spark.newSession())
    made.createDataFrame([], _COLUMNS).createOrReplaceTempView("t")
    return made


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the gate looks at."""
    seen: list[str] = []
    judge = gate.validate_query

    def listening(session: SparkSession, sql: str) -> object:
        seen.append(sql)
        return judge(session, sql)

    monkeypatch.setattr(alike.gate, "validate_query", listening)
    return seen


def _said(judge: Callable[[str], object], sql: str) -> str:
    try:
        return f"passes: {judge(sql)}"
    except QueryRejected as refusal:
        return f"refused: {refusal} {refusal.line}:{refusal.column} {refusal.fragment}"


def _agree(session: SparkSession, text: str, pairs: list[tuple[str, str]]) -> None:
    verdicts = VerdictCache(session)
    for pair in pairs:
        sql = text.format(*pair)
        assert _said(verdicts.validate, sql) == _said(
            lambda one: gate.validate_query(session, one), sql
        ), sql


@settings(max_examples=25, deadline=None)
@example(
    text="SELECT host, ts FROM t WHERE host = {} AND cpu > {}", pairs=[("'a'", "5"), ("'b'", "7")]
)
# HAVING finds the condition among the groups, or does not.
@example(
    text="SELECT max(ts) AS ts FROM t GROUP BY host, n > {} HAVING n > {}",
    pairs=[("5", "5"), ("5", "7")],
)
@example(
    text="SELECT n > {}, max(ts) AS ts FROM t GROUP BY ALL HAVING n > {}",
    pairs=[("5", "5"), ("5", "7")],
)
@example(
    text="SELECT host, ts FROM t WHERE n = {} AND cpu > {}",
    pairs=[("'5'", "5"), ("'nan'", "5"), ("'a'", "7")],
)
# The analyser decides the first by itself, as no length is so large, and drops the call.
@example(
    text="SELECT host, ts FROM t WHERE length(version()) > {} AND cpu > {}",
    pairs=[("9999999999999999999.5", "5"), ("1000000000000000000.5", "5")],
)
@example(
    text="SELECT host, `>`(n, {}) AS c, max(ts) AS ts FROM t GROUP BY host, `>`(n, 5) HAVING n > "
    "{}",
    pairs=[("5", "5"), ("5", "6")],
)
@given(text=TEXTS, pairs=_MANY)
def test_each_gets_the_verdict_that_it_would_get_alone(
    session: SparkSession, text: str, pairs: list[tuple[str, str]]
) -> None:
    _agree(session, text, pairs)


PROGRESS = Progress("texts", 250)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=1500, deadline=None)
@given(text=TEXTS, pairs=_MANY)
def test_each_gets_the_verdict_that_it_would_get_alone_at_length(
    session: SparkSession, text: str, pairs: list[tuple[str, str]]
) -> None:
    _agree(session, text, pairs)
    PROGRESS.step()


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("SELECT host, ts FROM t WHERE host = 'h{0}' AND NOT cpu > 1{0:02}", 1),
        (
            "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, '1 minute') HAVING "
            "max(n) > 1{0:02}.5",
            1,
        ),
        # One for each number of digits, and for each sign.
        ("SELECT host, ts FROM t WHERE cpu > {0}", 2),
        ("SELECT host, ts FROM t WHERE cpu > {0} - 5", 20),
        ("SELECT host, ts FROM t WHERE host LIKE 'h{0}%'", 20),
        (
            "SELECT host, window.end AS ts FROM t GROUP BY host, window(ts, '{0} minutes') "
            "HAVING max(n) > 3",
            20,
        ),
        ("SELECT host, ts, {0} AS x FROM t WHERE n > 3", 20),
        ("SELECT host, ts FROM t WHERE host = 'ä' AND cpu > 1{0:02}", 20),
    ],
)
def test_what_is_alike_is_judged_once(
    session: SparkSession, judged: list[str], text: str, looks: int
) -> None:
    verdicts = VerdictCache(session)
    texts = [text.format(i) for i in range(1, 21)]
    for sql in [*texts, *texts]:
        verdicts.validate(sql)
    # A text with letters beyond ASCII stands for nothing, not for itself either.
    assert len(judged) == (looks if texts[0].isascii() else 2 * looks)


def test_what_was_refused_stands_for_nothing(session: SparkSession, judged: list[str]) -> None:
    verdicts = VerdictCache(session)
    for i in range(3):
        with pytest.raises(QueryRejected, match="reflect is not allowed"):
            verdicts.validate(f"SELECT host, ts FROM t WHERE reflect('a', 'b') = 'x{i}'")
    assert len(judged) == 3
