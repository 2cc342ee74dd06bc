"""Fields by name and by path."""

from typing import Any

import pytest

from archiver.formats import MISSING, find_first, find_value, parse_path, without_fields

RECORD: dict[str, Any] = {
    "host.name": "flat",
    "host": {"name": "nested", "ip": 1},
    "items": [{"id": 7}, {"id": 8}],
    "@timestamp": "t",
    "a": {"b": {"c": None}},
}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("host.name", "flat"),
        ("host.ip", 1),
        ("items[0].id", 7),
        ("items[-1].id", 8),
        ("items[2].id", MISSING),
        ("@timestamp", "t"),
        ("a.b.c", None),
        ("a.b.c.d", MISSING),
        ("host[0]", MISSING),
    ],
)
def test_a_field_of_the_whole_name_comes_before_its_path(field: str, expected: object) -> None:
    assert find_value(RECORD, field) == expected


@pytest.mark.parametrize(
    ("record", "rest"),
    [
        ({"m": {"labels": {"k8s.io/name": "w", "z": 1}}}, {"m": {"labels": {"z": 1}}}),
        ({"m.labels": {"k8s.io/name": "w"}}, {}),
        ({"m": {"labels.k8s": {"io/name": "w"}}, "b": 1}, {"b": 1}),
        ({"m": {"labels": {"k8s": {"io/name": "w"}, "k8s.io/name": 2}}}, None),
    ],
)
def test_names_inside_may_have_dots(record: dict[str, Any], rest: object) -> None:
    assert find_value(record, "m.labels.k8s.io/name") == "w"
    if rest is not None:
        assert without_fields(record, ["m.labels.k8s.io/name"]) == rest
    assert find_value({"a": [{"b.c": 5}]}, "a[0].b.c") == 5
    assert find_value({"a": {"b.c": 5}}, "a.b.d") is MISSING


def test_first_alternative_that_is_not_null_counts() -> None:
    assert find_first(RECORD, ["x.y", "a.b.c", "host.ip"]) == ("host.ip", 1)
    assert find_first(RECORD, ["x.y", "a.b.c"]) == ("a.b.c", None)
    assert find_first(RECORD, ["x"]) is None


def test_read_fields_leave_the_rest_and_empty_objects_go() -> None:
    rest = without_fields(RECORD, ["host.name", "a.b.c", "items[0].id", "host.ip"])
    assert rest == {
        "host": {"name": "nested"},
        "items": [{"id": 7}, {"id": 8}],
        "@timestamp": "t",
    }
    assert RECORD["a"] == {"b": {"c": None}}


def test_names_that_are_no_paths_are_names() -> None:
    assert [parse_path(name) for name in ("a..b", ".a", "a[x]", "", "a b")] == [
        ("a..b",),
        (".a",),
        ("a[x]",),
        ("",),
        ("a b",),
    ]
