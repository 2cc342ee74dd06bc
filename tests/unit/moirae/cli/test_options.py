"""Printed values, and checks that several commands share."""

import inspect
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from moirae.cli.options import (
    check_choices,
    escape_control,
    expand_option_groups,
    format_cell,
    format_count,
    format_size,
    format_time,
    print_table,
    print_warnings,
)
from moirae.errors import Problem, UsageError


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (10**13, "10.0 TB")],
)
def test_sizes_have_decimal_units(byte_count: int, text: str) -> None:
    assert format_size(byte_count) == text


def test_times_are_in_utc_and_show_fractions_only_if_there_are_any() -> None:
    time = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(time) == "2026-01-01 00:00:00Z"
    assert format_time(time.replace(microsecond=5)) == "2026-01-01 00:00:00.000005Z"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (12345, "12,345"),
        ({"host": "a", "n": 1}, "host=a, n=1"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00Z"),
        ("a\x1b[2J[b]", r"a\x1b[2J\[b]"),
    ],
)
def test_cells_are_plain_text(value: Any, text: str) -> None:
    assert format_cell(value) == text


def test_characters_that_steer_a_terminal_are_visible() -> None:
    assert escape_control("a\x1b[1m\n\u202eb") == r"a\x1b[1m\x0a\u202eb"


def test_counts_have_singular_and_plural() -> None:
    assert format_count(1, "chunk") == "1 chunk"
    assert format_count(2000, "chunk") == "2,000 chunks"


def test_empty_table_prints_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a"], [], "no rows")
    assert capsys.readouterr().out.strip() == "no rows"


def test_long_texts_of_a_list_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a"], [["[x]" * 500_000], [{"key": "y" * 999}], ["z" * 1000]], "no rows")
    output = capsys.readouterr().out
    assert len(output) < 5000 and "… (1,500,000 characters)" in output.replace("\n", "")
    assert output.count("y") == 1 + 996 and output.count("z") == 1000


def test_unknown_choice_names_the_choices() -> None:
    check_choices("state", ["firing"], ("pending", "firing"))
    with pytest.raises(UsageError, match="unknown state 'on': must be one of pending, firing"):
        check_choices("state", ["firing", "on"], ("pending", "firing"))


def test_warnings_of_several_lines_keep_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_warnings([Problem("rules.yaml", 1, 2, "unused key\nsee \x1b[2J", "warning")])
    assert capsys.readouterr().err == "rules.yaml:1:2: warning: unused key\nsee \\x1b[2J\n"


def test_fields_of_an_option_group_are_parameters_in_its_place() -> None:
    @dataclass(frozen=True)
    class Source:
        path: str
        limit: int = 5

    calls = []

    @expand_option_groups
    def command(rule: str, source: Source, output: str = "table") -> None:
        calls.append((rule, source, output))

    assert list(inspect.signature(command).parameters) == ["rule", "path", "limit", "output"]
    command(rule="r", path="p", limit=6, output="json")
    assert calls == [("r", Source("p", 6), "json")]
