from collections.abc import Mapping

import pytest

from moirae.rules.event_names import (
    EventNames,
    find_event_names,
    find_producers,
    find_tables_in,
    full_name,
    list_event_names,
    list_event_queries,
)
from moirae.rules.model import Group
from moirae.rules.rule_set import Rule, build_rules


def rules(group: str, derived: Mapping[str, str] | None = None, **exprs: str) -> list[Rule]:
    """A rule for each query of a group."""
    content = {
        "name": group,
        "derived": [{"stream": name, "expr": sql} for name, sql in (derived or {}).items()],
        "rules": [{"alert": alert, "expr": expr} for alert, expr in exprs.items()],
    }
    return list(build_rules(Group.model_validate(content)))


ALL = [*rules("g", High="SELECT ts FROM a", Low="SELECT ts FROM a"), *rules("f", High="SELECT 1")]


@pytest.mark.parametrize(
    ("table", "group", "expected"),
    [
        ("events.high", "g", "g/High"),
        ("events.high", "f", "f/High"),
        ("events.low", "f", "g/Low"),
        ("events.g/high", "f", "g/High"),
    ],
)
def test_a_name_is_of_the_own_group_then_the_only_one(
    table: str, group: str, expected: str
) -> None:
    assert EventNames(ALL).resolve(table, group) == expected


def test_ambiguous_and_unknown_names_are_refused() -> None:
    with pytest.raises(LookupError, match=r"several rules have this name \(f/High, g/High\)"):
        EventNames(ALL).resolve("events.high", "e")
    with pytest.raises(LookupError, match=r"events\.none: there is no rule of this name"):
        EventNames(ALL).resolve("events.none", "g")


def test_readers_are_found_through_derived_streams() -> None:
    (reader,) = rules("f", {"d": "SELECT ts FROM events.`g/High` h"}, R="SELECT ts FROM d")
    queries = list_event_queries(reader)
    assert find_event_names(reader, queries) == ["events.g/high"]
    assert list(find_producers(reader, EventNames(ALL), queries)) == [("g/High", "events.g/high")]
    assert find_event_names(ALL[0], list_event_queries(ALL[0])) == []
    assert find_tables_in("SELECT FROM WHERE (") == frozenset()
    assert list_event_names(["cpu", "events.x"]) == ["events.x"]
    assert full_name("g/High") == "events.g/high"
