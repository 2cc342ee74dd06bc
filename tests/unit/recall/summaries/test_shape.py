"""Which summary a recall needs, or why none can answer it; and which summaries suffice."""

from typing import Any

import pytest

from recall.engines.template import Template
from recall.errors import NotSummarised
from recall.requests import SqlQuestion
from recall.summaries.model import SummaryShape, SummaryUse, plan_shapes
from recall.summaries.shape import declared_shape, find_use

COLUMNS = {"ts": "timestamp", "host": "string", "slice": "string", "v": "double", "n": "bigint"}


def use_of(sql: str, **options: Any) -> SummaryUse:
    attributes = {"host": "string", "limit": "double", "n": "int"}
    question = SqlQuestion(
        None, 1.0, "newest", sql, {"cpu": "ts"}, ("sites",), {}, attributes, {}, {}, **options
    )
    return find_use(Template(question), COLUMNS)


def test_norm_is_kept_by_the_columns_that_equal_the_event() -> None:
    use = use_of(
        "SELECT avg(h.v) AS mean, stddev(h.v) AS sd, count(*) AS n FROM cpu h "
        "WHERE h.host = event.host AND event.n = h.n AND h.v > 1"
    )
    assert use.shape.dimensions == ("`host`", "`n`")
    assert use.shape.conditions == ("`v` > 1",)
    kinds = sorted(measure.kind for measure in use.shape.measures)
    assert kinds == ["squares", "sum", "sum", "sum"], "the average and the deviation share a sum"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT count(*) AS n FROM cpu h WHERE h.v > event.limit", "event.limit"),
        ("SELECT count(*) AS n FROM cpu h WHERE h.n = event.limit", "event.limit"),
        ("SELECT count(*) AS n FROM cpu h WHERE h.ts > event.ts - INTERVAL 1 DAY", ""),
        ("SELECT max(h.v - event.limit) AS m FROM cpu h", "an aggregate"),
        ("SELECT host, v FROM cpu LIMIT 3", "it selects rows"),
        ("SELECT count(*) AS n FROM cpu h WHERE h.n IN (1, event.limit)", "event.limit"),
        ("SELECT count(DISTINCT host, n) AS n FROM cpu", ""),
        ("SELECT approx_count_distinct(host) AS n FROM cpu", ""),
        ("SELECT max_by(host, v) AS h FROM cpu", ""),
        (
            "SELECT count(*) AS n FROM cpu JOIN sites ON cpu.host = sites.host",
            "relations",
        ),
        ("SELECT n, sum(count(*)) OVER () AS s FROM cpu GROUP BY n", "window functions"),
    ],
)
def test_says_why_there_is_none(sql: str, reason: str) -> None:
    with pytest.raises(NotSummarised) as error:
        use_of(sql)
    assert reason in str(error.value)


def test_recall_may_refuse_summaries() -> None:
    with pytest.raises(NotSummarised, match="summary is off"):
        use_of("SELECT count(*) AS n FROM cpu", summary="off")


def test_recalls_that_differ_in_measures_share_a_summary() -> None:
    first = use_of("SELECT avg(v) AS m FROM cpu WHERE host = event.host")
    second = use_of("SELECT max(c.v) AS m FROM cpu c WHERE event.host = c.host")
    ((shape, is_required),) = plan_shapes({first.shape: False, second.shape: True}).items()
    assert is_required
    assert first.find_lookups(shape) is not None and second.find_lookups(shape) is not None
    assert second.find_lookups(first.shape) is None


def declared(*measured: str) -> SummaryShape:
    return declared_shape("cpu", "ts", COLUMNS, ("host", "slice"), measured)


def test_declared_summary_answers_by_part_of_its_key_and_by_constants() -> None:
    use = use_of("SELECT avg(v) AS m, stddev(v) AS s FROM cpu WHERE host = 'a' GROUP BY slice")
    lookups = use.find_lookups(declared("v"))
    assert lookups is not None
    assert [lookup.values({}) for lookup in lookups] == [("a",)]
    assert use.find_lookups(declared("n")) is None


def test_condition_on_other_columns_is_not_covered() -> None:
    use = use_of("SELECT avg(v) AS m FROM cpu WHERE n = 1 AND host = event.host")
    assert use.find_lookups(declared("v")) is None
    assert use.find_lookups(use.shape) is not None


def test_values_of_in_are_looked_up_once_each_without_null() -> None:
    use = use_of("SELECT count(*) AS c FROM cpu WHERE n IN (event.n, 2, 2)")
    (lookup,) = use.lookups
    assert lookup.dimension == "`n`"
    assert lookup.values({"n": 1}) == (1, 2)
    assert lookup.values({"n": 2}) == (2,)
    assert lookup.values({"n": None}) == (2,)


def test_in_with_constants_is_answered_by_a_declared_summary() -> None:
    use = use_of("SELECT avg(v) AS m FROM cpu WHERE slice IN ('x', 'y')")
    (lookup,) = use.find_lookups(declared("v")) or ()
    assert lookup.values({}) == ("x", "y")
    assert use.shape.conditions == ("`slice` IN ('x', 'y')",)


def test_counted_values_are_a_key_of_the_summary() -> None:
    use = use_of("SELECT count(DISTINCT slice) AS n FROM cpu WHERE host = event.host")
    assert use.shape.dimensions == ("`host`", "`slice`")
    assert use.find_lookups(declared("v")) is not None, "a declared key is enough"
    assert use.find_lookups(declared_shape("cpu", "ts", COLUMNS, ("host",), ("v",))) is None


def test_key_of_a_summary_depends_on_types_of_columns() -> None:
    shape = declared("v")
    other = declared_shape("cpu", "ts", {**COLUMNS, "v": "float"}, ("host", "slice"), ("v",))
    assert shape.key != other.key
    assert shape.key == declared("v").key
