"""Changed column types: keys that would change are refused, terms of contexts make a version."""

from dataclasses import replace

import pytest

from moirae.rules import AlertSpec, Definition, Rule
from moirae.rules.changed_columns import find_changed_keys, with_term_types
from moirae.rules.rule_set import DerivedQuery

CHANGED = {"m": {"v": ("bigint", "double")}}


def rule(expr: str, key: list[str], **keys: object) -> Rule:
    spec = {"alert": "a", "expr": expr, "key": key, **keys}
    return Rule(group="g", spec=AlertSpec.model_validate(spec))


@pytest.mark.parametrize(
    ("expr", "key", "is_refused"),
    [
        ("SELECT host, v, ts FROM m", ["host", "v"], True),
        ("SELECT * FROM m", ["v"], True),
        ("SELECT m.v AS value, ts FROM m", ["value"], True),
        ("SELECT CAST(v AS bigint) AS v, ts FROM m", ["v"], False),
        ("SELECT host, v, ts FROM m", ["host"], False),
        ("SELECT host, v, ts FROM n", ["v"], False),
        ("SELECT max(v) + 1 AS top, max(ts) AS ts FROM m GROUP BY host", ["top"], True),
        ("SELECT coalesce(v, 0) AS w, ts FROM m", ["w"], True),
        ("SELECT CASE WHEN v > 5 THEN 'high' END AS level, ts FROM m", ["level"], False),
    ],
)
def test_keys_with_another_text_are_refused(expr: str, key: list[str], is_refused: bool) -> None:
    problems = list(find_changed_keys(rule(expr, key), CHANGED))
    assert len(problems) == is_refused
    if is_refused:
        assert "CAST(v AS bigint) AS" in problems[0].message


def test_keys_from_derived_streams_are_refused() -> None:
    derived = [
        DerivedQuery("g", "tops", "SELECT host, ts, max(v) AS top FROM m GROUP BY host, ts"),
        DerivedQuery("g", "named", "SELECT host, ts, top AS w FROM tops"),
    ]
    reader = replace(
        rule("SELECT host, w AS level, ts FROM named", ["level"]), derived=tuple(derived)
    )
    (problem,) = find_changed_keys(reader, CHANGED)
    assert "column v of stream m, bigint before and double now" in problem.message
    assert list(find_changed_keys(replace(reader, derived=()), CHANGED)) == []


def test_absence_reads_its_stream() -> None:
    spec = {"alert": "a", "absent": "5m", "stream": "m", "key": ["v"]}
    absent = Rule(group="g", spec=AlertSpec.model_validate(spec))
    assert len(list(find_changed_keys(absent, CHANGED))) == 1


@pytest.mark.parametrize(
    ("sql", "types", "is_new"),
    [
        ("SELECT DISTINCT v FROM m", {"v": "double"}, True),
        ("SELECT * FROM m", {"v": "double"}, True),
        ("SELECT DISTINCT host FROM m WHERE v > 5", {"host": "string"}, False),
        ("SELECT count(*) AS n FROM m", {"n": "bigint"}, False),
        ("SELECT DISTINCT v FROM other", {"v": "double"}, False),
    ],
)
def test_terms_with_another_text_make_a_version(
    sql: str, types: dict[str, str], is_new: bool
) -> None:
    context = {"near": {"sql": sql, "within": "1m"}}
    checked = Definition(
        rule("SELECT host, ts FROM m", ["host"], context=context),
        types={"host": "string"},
        key=("host",),
        id=("host",),
        result_columns={"near": types},
    )
    changed = with_term_types(checked, {"m": {"v": "double"}})
    assert (changed.version != checked.version) == is_new
    assert with_term_types(checked, {}).version == checked.version
    assert Definition.from_json(changed.to_json()).version == changed.version
