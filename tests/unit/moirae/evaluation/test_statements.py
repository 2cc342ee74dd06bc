"""One Spark statement for several rules."""

import sqlglot

from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.statements import NumberedQuery, build_batch_branch, build_branches
from tests.unit.moirae.evaluation.builders import make_filter, make_rule

WINDOWS = "SELECT host, max(v) AS v, window.end AS ts FROM s GROUP BY host, window(ts, '1 minute')"


def _branches(*rules: ActiveRule) -> list[str]:
    return build_branches(
        [NumberedQuery(number, rule, rule.bind_event_query()) for number, rule in enumerate(rules)]
    )


def test_filters_over_one_stream_share_a_scan() -> None:
    (branch,) = _branches(make_filter("A", 1.5), make_filter("B", 2.5))
    assert branch.count("FROM in_s") == 1
    assert branch.count("if(") == 2


def test_windows_have_a_branch_of_their_own() -> None:
    windows, filters = _branches(make_filter("A", 1.5), make_rule("B", WINDOWS))
    assert windows.startswith("SELECT 1 AS rule")
    assert "explode(" in filters


def test_query_whose_alias_is_also_a_column_is_not_a_shared_filter() -> None:
    ambiguous = make_rule("A", "SELECT upper(host) AS host, v + length(host) AS v, ts FROM s")
    (branch,) = _branches(ambiguous)
    assert "explode(" not in branch


def test_branches_are_valid_spark_sql_with_the_same_columns() -> None:
    branches = _branches(make_rule("A", WINDOWS), make_rule("B", WINDOWS))
    branches.append(build_batch_branch("SELECT rule, ts, c0 FROM t", ["host"]))
    for branch in branches:
        query = sqlglot.parse_one(branch, dialect="spark")
        assert [output.alias_or_name for output in query.selects] == ["rule", "ts", "attributes"]


def test_event_without_attributes_is_an_empty_object() -> None:
    assert "'{}' AS attributes" in build_batch_branch("SELECT rule, ts FROM t", [])
