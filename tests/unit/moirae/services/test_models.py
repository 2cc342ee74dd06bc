"""Pages of lists: cursors, and the arguments of operations."""

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError

from moirae.cli.pages import make_query
from moirae.errors import UsageError
from moirae.services.models import (
    Arguments,
    Seconds,
    Time,
    decode_cursor,
    encode_cursor,
    next_cursor,
    parse_number,
)
from moirae.services.operations.alerts import Assignment, Comment, acknowledge
from moirae.services.operations.recalls import CommandBody, RevisionQuery, list_row_revisions
from moirae.services.operations.rules import RuleNames
from moirae.services.workspace import LocalWorkspace

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
ID = UUID(int=7)


def test_cursor_holds_a_position_exactly() -> None:
    cursor = encode_cursor(MOMENT, "a recall", ID)
    assert decode_cursor(cursor, datetime.fromisoformat, str, UUID) == (MOMENT, "a recall", ID)
    assert decode_cursor(None, UUID) is None


@pytest.mark.parametrize(
    "cursor", ["", "%", "x", encode_cursor("x", ID), encode_cursor(MOMENT), "é", "a" * 299]
)
def test_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="invalid cursor"):
        decode_cursor(cursor, datetime.fromisoformat, UUID)


def test_time_of_a_cursor_has_a_time_zone() -> None:
    with pytest.raises(UsageError, match="invalid cursor"):
        decode_cursor(encode_cursor("2026-01-01"), datetime.fromisoformat)


@pytest.mark.parametrize("text", ["-1", "x", str(1 << 63)])
def test_number_of_a_cursor_must_fit_into_the_database(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_number(text)


def test_last_page_has_no_cursor() -> None:
    assert next_cursor([1, 2], 3, lambda row: (row,)) is None
    assert next_cursor([1, 2, 3], 3, lambda row: (row,)) == encode_cursor(3)


def test_time_is_given_as_a_duration_before_now() -> None:
    parse = TypeAdapter(Time).validate_python
    before = datetime.now(UTC) - timedelta(days=7)
    assert before <= parse("7d") <= before + timedelta(minutes=1)
    assert parse("2026-01-02T03:04:05.678901") == MOMENT
    for text in ("7x", "", "d", "200y"):
        with pytest.raises(ValidationError):
            parse(text)


def test_seconds_are_given_as_a_duration_or_a_number() -> None:
    parse = TypeAdapter(Seconds).validate_python
    assert [parse(value) for value in ("1h30m", "90", 1.5)] == [5400.0, 90.0, 1.5]
    with pytest.raises(ValidationError):
        parse("soon")


@pytest.mark.parametrize(
    ("model", "values", "name"),
    [
        (Comment, {"text": "a\x00b"}, "text"),
        (Assignment, {"assignee": "\x00"}, "assignee"),
        (CommandBody, {"command": "cancel", "key": "\x00"}, "key"),
        (RuleNames, {"rules": ["a", "b\x00"]}, "rules"),
    ],
)
def test_text_with_nul_is_refused(
    model: type[Arguments], values: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError, match=f"^{name}: .*must not contain the NUL character$"):
        make_query(model, **values)


def test_name_and_author_with_nul_are_refused() -> None:
    unused: Any = None
    workspace = LocalWorkspace(settings=unused, connection=unused, author="ada", via="cli")
    with pytest.raises(UsageError, match=r"^stream: must not contain the NUL character$"):
        list_row_revisions(workspace, "a\x00b", RevisionQuery())
    with pytest.raises(UsageError, match=r"^author: must not contain the NUL character$"):
        acknowledge(workspace.with_author("\x00"), "a", Comment(text=""))


def test_blank_author_is_refused() -> None:
    unused: Any = None
    workspace = LocalWorkspace(settings=unused, connection=unused, author="ada", via="cli")
    with pytest.raises(UsageError, match=r"^author: must not be blank$"):
        acknowledge(workspace.with_author(" "), "a", Comment(text=""))


def test_bytes_of_a_command_line_that_are_no_text_are_refused() -> None:
    unused: Any = None
    workspace = LocalWorkspace(settings=unused, connection=unused, author="ada", via="cli")
    with pytest.raises(UsageError, match=r"^alert: must be UTF-8 text$"):
        acknowledge(workspace, os.fsdecode(b"\xff"), Comment(text=""))


@pytest.mark.parametrize("text", ["7d", "1h30m", "500ms", "2000w", "1w2d3h4m5s6ms"])
def test_documented_durations_are_those_that_are_accepted(text: str) -> None:
    for kind in (Time, Seconds):
        adapter = TypeAdapter(kind)
        adapter.validate_python(text)
        patterns = [entry.get("pattern", "$^") for entry in adapter.json_schema()["anyOf"]]
        assert any(re.search(pattern, text) for pattern in patterns)
        assert not any(re.search(pattern, "7x") for pattern in patterns)
