"""What changed columns take, and which changes are refused."""

from dataclasses import replace
from datetime import timedelta

import pytest

from archiver.delta.column_changes import (
    find_identity_problems,
    is_widening,
    keeps_text,
    plan_column_changes,
)
from archiver.delta.schema import ARROW_TYPES, StreamSchema

COLUMNS = {"ts": "timestamp", "host": "string", "n": "int", "v": "bigint", "day": "date"}
SCHEMA = StreamSchema("s", COLUMNS, "ts", ("host", "n"), (), timedelta(0), timedelta(0))


def declare(was: dict[str, str] | None = None, **types: str | None) -> StreamSchema:
    """The stream with columns of other types; None: removed."""
    columns = {name: kind for name, kind in {**COLUMNS, **types}.items() if kind is not None}
    return replace(SCHEMA, columns=columns, was=was or {})


def test_same_columns_take_nothing() -> None:
    changes = plan_column_changes(SCHEMA, COLUMNS)
    assert not changes.rewritten and not changes.added and not changes.problems


def test_widened_and_renamed_columns_are_rewritten() -> None:
    schema = declare(was={"machine": "host"}, host=None, machine="string", v="double", n="bigint")
    changes = plan_column_changes(replace(schema, id=("machine", "n")), COLUMNS)
    assert changes.rewritten == {
        "machine": ("host", "string"),
        "v": ("v", "bigint"),
        "n": ("n", "int"),
    }
    assert changes.renamed == {"machine": "host"}
    assert not changes.problems


def test_new_column_is_added_and_removed_one_stays() -> None:
    changes = plan_column_changes(declare(v=None, w="double"), COLUMNS)
    assert changes.added == ("w",) and not changes.rewritten and not changes.problems


def test_rename_is_done_once() -> None:
    schema = declare(was={"machine": "host"}, host=None, machine="string")
    renamed = {**COLUMNS, "machine": "string"}
    del renamed["host"]
    assert not plan_column_changes(replace(schema, id=("machine",)), renamed).rewritten


@pytest.mark.parametrize("old", ARROW_TYPES)
@pytest.mark.parametrize("new", ARROW_TYPES)
def test_only_wider_types_take_over(old: str, new: str) -> None:
    changes = plan_column_changes(declare(x=new), {**COLUMNS, "x": old})
    if old == new:
        assert not changes.rewritten and not changes.problems
    elif is_widening(old, new):
        assert changes.rewritten["x"] == ("x", old)
    else:
        (problem,) = changes.problems
        assert problem.path == ("columns", "x")
        assert f"was archived as {old} and cannot become {new}" in problem.message


def test_text_of_identifying_columns_stays() -> None:
    assert keeps_text("int", "bigint") and not keeps_text("bigint", "double")
    assert not plan_column_changes(declare(n="bigint"), COLUMNS).problems
    (problem,) = plan_column_changes(declare(n="double"), COLUMNS).problems
    assert "identifies rows" in problem.message


def test_ambiguous_names_are_refused() -> None:
    taken = declare(was={"v": "w"})
    (problem,) = plan_column_changes(taken, {**COLUMNS, "w": "bigint"}).problems
    assert "the archive has a column v already" in problem.message
    (problem,) = plan_column_changes(declare(v=None, V="bigint"), COLUMNS).problems
    assert "only in case" in problem.message
    assert not plan_column_changes(declare(was={"V": "v"}, v=None, V="bigint"), COLUMNS).problems


def test_time_stays() -> None:
    renamed = declare(was={"at": "ts"}, ts=None, at="timestamp")
    (problem,) = plan_column_changes(replace(renamed, time="at"), COLUMNS).problems
    assert "the event time cannot be renamed" in problem.message
    other = replace(declare(at="timestamp"), time="at")
    (problem,) = find_identity_problems(other, SCHEMA)
    assert problem.path == ("time",)
    moved = replace(SCHEMA, fields={"ts": ("t",)})
    (problem,) = find_identity_problems(moved, SCHEMA)
    assert problem.path == ("columns", "ts")


@pytest.mark.parametrize("id_columns", [None, ("host",), ("host", "n", "v")])
def test_id_stays(id_columns: tuple[str, ...] | None) -> None:
    (problem,) = find_identity_problems(replace(SCHEMA, id=id_columns), SCHEMA)
    assert problem.path == ("id",) and "host, n" in problem.message


def test_renamed_id_is_the_same() -> None:
    schema = declare(was={"machine": "host"}, host=None, machine="string")
    assert find_identity_problems(replace(schema, id=("n", "machine")), SCHEMA) == []
    assert find_identity_problems(replace(SCHEMA, id=("n", "host")), SCHEMA) == []
