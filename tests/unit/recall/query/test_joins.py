"""Joins of streams: the stream that gives rows their time, and bounds of joined times."""

import pytest
from sqlglot import exp

from recall.query import parsing
from recall.query.joins import find_anchor, time_bounds

SECOND = 1_000_000  # microseconds
TIMES = {"a": "ts", "b": "at"}


def parse(sql: str) -> exp.Select:
    select = parsing.parse(sql)
    assert isinstance(select, exp.Select)
    return select


@pytest.mark.parametrize(
    ("output", "anchor"),
    [
        ("a.ts AS ts", "a"),
        ("b.at AS ts", "b"),
        ("A.TS AS TS", "a"),
        ("a.at AS ts", None),
        ("a.ts + INTERVAL 1 SECOND AS ts", None),
        ("a.ts AS time", None),
    ],
)
def test_anchor_is_the_stream_whose_time_is_selected(output: str, anchor: str | None) -> None:
    assert find_anchor(parse(f"SELECT {output} FROM x a JOIN y b"), TIMES, []) == anchor


def test_anchor_of_a_window_is_the_stream_it_groups_by() -> None:
    select = parse("SELECT a.ts AS ts FROM x a JOIN y b")
    window = exp.Anonymous(this="window", expressions=[exp.column("at", table="b")])
    assert find_anchor(select, TIMES, []) == "a"
    assert find_anchor(select, TIMES, [window]) == "b"


def test_single_stream_is_the_anchor() -> None:
    assert find_anchor(parse("SELECT 1 FROM x a"), {"a": "ts"}, []) == "a"


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("b.at = a.ts", (0, 0)),
        ("b.at BETWEEN a.ts - INTERVAL 5 SECONDS AND a.ts", (-5, 0)),
        ("b.at > a.ts AND b.at <= a.ts + INTERVAL 9 SECONDS", (0, 9)),
        ("a.ts >= b.at AND b.at > a.ts - INTERVAL 1 MINUTE", (-60, 0)),
        ("a.ts + INTERVAL 2 SECONDS = b.at - INTERVAL 3 SECONDS", (5, 5)),
        ("b.at >= a.ts AND b.at <= a.ts - INTERVAL 1 SECOND", (0, 0)),
        ("b.at >= a.ts", None),
        ("b.at >= a.ts OR b.at <= a.ts", None),
        ("a.host = b.host", None),
    ],
)
def test_bounds_follow_from_the_condition(condition: str, bounds: tuple[int, int] | None) -> None:
    select = parse(f"SELECT a.ts AS ts FROM x a JOIN y b ON {condition}")
    (join,) = select.args["joins"]
    micros = None if bounds is None else (bounds[0] * SECOND, bounds[1] * SECOND)
    assert time_bounds(select, join, ("a", "ts"), ("b", "at")) == micros


def test_where_bounds_a_join_as_well() -> None:
    select = parse(
        "SELECT a.ts AS ts FROM x a JOIN y b ON b.at >= a.ts WHERE b.at < a.ts + INTERVAL 1 DAY"
    )
    (join,) = select.args["joins"]
    assert time_bounds(select, join, ("a", "ts"), ("b", "at")) == (0, 86_400 * SECOND)


def test_join_using_the_time_column_requires_equal_times() -> None:
    select = parse("SELECT a.ts AS ts FROM x a JOIN y b USING (ts)")
    (join,) = select.args["joins"]
    assert time_bounds(select, join, ("a", "ts"), ("b", "ts")) == (0, 0)
