"""Fifty alert rules of Prometheus, ten of each kind, translated by hand.

A case has the rule in PromQL, its translation, series by instance, one value a minute, and what the
expression says of the values up to a minute. `tests/integration/test_prometheus_examples.py` follows
Prometheus's rules for pending and firing alerts from it, and compares each minute.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Sequence[Any]  # of one instance, up to a minute; None: no sample


@dataclass(frozen=True)
class Case:
    """`other`: series of the stream `other`. `for_minutes`, `keep_minutes`: `for` and
    `keep_firing_for` of Prometheus. `holds`: gets the values of the instance in both streams.
    """

    name: str
    promql: str
    translation: str
    series: Mapping[str, str]
    holds: Callable[[Values, Values], bool]
    other: Mapping[str, str] | None = None
    for_minutes: int = 0
    keep_minutes: int = 0


def _filter(condition: str) -> str:
    return f"SELECT ts, instance, value FROM sample WHERE {condition}"


def _window(aggregate: str, condition: str, minutes: int) -> str:
    """The last minutes as of each sample."""
    return (
        f"SELECT instance, max(ts) AS ts, {aggregate} AS v FROM sample "
        f"GROUP BY instance, window(ts, '{minutes} minutes', '1 minute') HAVING {condition}"
    )


def _join(condition: str, kind: str = "") -> str:
    return (
        f"SELECT a.ts, a.instance, a.value FROM sample a {kind} JOIN other b "
        "ON b.instance = a.instance AND b.ts BETWEEN a.ts - INTERVAL 30 SECONDS "
        f"AND a.ts + INTERVAL 30 SECONDS WHERE {condition}"
    )


def _last(values: Values, minutes: int) -> list[Any]:
    return [value for value in values[-minutes:] if value is not None]


THRESHOLDS = [
    Case("InstanceDown", "up == 0", _filter("value = 0"), {"a": "1x3 0x2 1x3", "b": "1x9"},
         lambda v, o: v[-1] == 0),
    Case("HighLoad", "node_load1 > 4", _filter("value > 4"), {"a": "1+1x6 4x2 5 1x2"},
         lambda v, o: v[-1] > 4),
    Case("DiskAlmostFull", "free / size < 0.1", _filter("value < 0.1"), {"a": "0.5-0.1x5 0.3x3"},
         lambda v, o: v[-1] < 0.1),
    Case("OutOfRange", "t < 10 or t > 30", _filter("value < 10 OR value > 30"),
         {"a": "9 10 20 30 31 30 9", "b": "20x8"}, lambda v, o: v[-1] < 10 or v[-1] > 30),
    Case("NotOne", "probe_success != 1", _filter("value <> 1"), {"a": "1 0 1 0.5 1 1"},
         lambda v, o: v[-1] != 1),
    Case("BothBounds", "x >= 5 and x <= 7", _filter("value BETWEEN 5 AND 7"), {"a": "3+1x6 1x3"},
         lambda v, o: 5 <= v[-1] <= 7),
    Case("TwoInstances", "x > 1", _filter("value > 1"), {"a": "2x2 0x5", "b": "0x2 2x3 0x2"},
         lambda v, o: v[-1] > 1),
    Case("Doubled", "2 * x > 9", _filter("2 * value > 9"), {"a": "4 5 4.5 4.6 4 4"},
         lambda v, o: 2 * v[-1] > 9),
    Case("Distance", "abs(x - 10) > 3", _filter("abs(value - 10) > 3"), {"a": "10 13 14 7 6 10 10"},
         lambda v, o: abs(v[-1] - 10) > 3),
    Case("Parity", "x % 3 == 0", _filter("value % 3 = 0"), {"a": "1+1x8 1x2"},
         lambda v, o: v[-1] % 3 == 0),
]  # fmt: skip
PENDING = [
    Case("Down5m", "up == 0", _filter("value = 0"), {"a": "1 0x7 1x3", "b": "1 0x4 1x6"},
         lambda v, o: v[-1] == 0, for_minutes=5),
    Case("Down1m", "up == 0", _filter("value = 0"), {"a": "0 1 0 0 1 0x2 1x2"},
         lambda v, o: v[-1] == 0, for_minutes=1),
    Case("Interrupted", "x > 1", _filter("value > 1"), {"a": "2x3 1 2x4 1 1"},
         lambda v, o: v[-1] > 1, for_minutes=4),
    Case("FromTheStart", "x > 1", _filter("value > 1"), {"a": "2x9 0x2"},
         lambda v, o: v[-1] > 1, for_minutes=3),
    Case("NeverLongEnough", "x > 1", _filter("value > 1"), {"a": "2x2 0 2x2 0 2x2 0"},
         lambda v, o: v[-1] > 1, for_minutes=3),
    Case("ExactlyLongEnough", "x > 1", _filter("value > 1"), {"a": "0 2x2 0x3"},
         lambda v, o: v[-1] > 1, for_minutes=2),
    Case("Kept", "x > 1", _filter("value > 1"), {"a": "0 2 0x5 0"},
         lambda v, o: v[-1] > 1, keep_minutes=3),
    Case("KeptOverAGap", "x > 1", _filter("value > 1"), {"a": "2 0 0 2 0x6"},
         lambda v, o: v[-1] > 1, keep_minutes=3),
    Case("PendingAndKept", "x > 1", _filter("value > 1"), {"a": "0 2x3 0x6"},
         lambda v, o: v[-1] > 1, for_minutes=2, keep_minutes=2),
    Case("StaggeredInstances", "x > 1", _filter("value > 1"),
         {"a": "2x5 0x3", "b": "0x2 2x5", "c": "2 0 2 0 2 0 2 0"},
         lambda v, o: v[-1] > 1, for_minutes=2),
]  # fmt: skip
WINDOWS = [
    Case("Average", "avg_over_time(x[5m]) > 3", _window("avg(value)", "avg(value) > 3", 5),
         {"a": "1 1 1 9 9 1x8"}, lambda v, o: sum(_last(v, 5)) / len(_last(v, 5)) > 3),
    Case("Highest", "max_over_time(x[3m]) > 5", _window("max(value)", "max(value) > 5", 3),
         {"a": "1 6 1x7"}, lambda v, o: max(_last(v, 3)) > 5),
    Case("Lowest", "min_over_time(x[3m]) > 5", _window("min(value)", "min(value) > 5", 3),
         {"a": "1 6x3 1x5"}, lambda v, o: min(_last(v, 3)) > 5),
    Case("Total", "sum_over_time(x[4m]) > 10", _window("sum(value)", "sum(value) > 10", 4),
         {"a": "1 2 3 4 5 0x7"}, lambda v, o: sum(_last(v, 4)) > 10),
    Case("Often", "count_over_time((x > 1)[5m:1m]) > 2",
         _window("count_if(value > 1)", "count_if(value > 1) > 2", 5),
         {"a": "0 2 0 2 2 0x7"}, lambda v, o: sum(x > 1 for x in _last(v, 5)) > 2),
    Case("Spread", "max_over_time(x[3m]) - min_over_time(x[3m]) > 4",
         _window("max(value) - min(value)", "max(value) - min(value) > 4", 3),
         {"a": "1 1 6 6 6 6x4"}, lambda v, o: max(_last(v, 3)) - min(_last(v, 3)) > 4),
    Case("Complete", "count_over_time(x[5m]) == 5 and sum_over_time(x[5m]) > 5",
         _window("sum(value)", "count(*) = 5 AND sum(value) > 5", 5),
         {"a": "1x3 2x4 0x6"}, lambda v, o: len(_last(v, 5)) == 5 and sum(_last(v, 5)) > 5),
    Case("AverageFor2m", "avg_over_time(x[3m]) > 2", _window("avg(value)", "avg(value) > 2", 3),
         {"a": "0 3x6 0x5", "b": "0 3x1 0x9"},
         lambda v, o: sum(_last(v, 3)) / len(_last(v, 3)) > 2, for_minutes=2),
    Case("Gaps", "count_over_time(x[5m]) > 3", _window("count(*)", "count(*) > 3", 5),
         {"a": "1 _ _ 1x4 _ _ _"}, lambda v, o: len(_last(v, 5)) > 3),
    Case("LongWindow", "max_over_time(x[10m]) > 5", _window("max(value)", "max(value) > 5", 10),
         {"a": "0 9 0x14"}, lambda v, o: max(_last(v, 10)) > 5),
]  # fmt: skip
JOINS = [
    Case("BusyAndSlow", "x > 5 and on (instance) y > 1", _join("a.value > 5 AND b.value > 1"),
         {"a": "6x5 1x2", "b": "6x7"}, lambda v, o: v[-1] > 5 and o[-1] > 1,
         other={"a": "1 2 2 1 2 2 2", "b": "1x7"}),
    Case("More", "x > on (instance) y", _join("a.value > b.value"),
         {"a": "1+1x6 0"}, lambda v, o: v[-1] > o[-1], other={"a": "4x7"}),
    Case("Ratio", "x / on (instance) y > 0.5", _join("a.value / b.value > 0.5"),
         {"a": "1 2 3 4 5 1 1"}, lambda v, o: v[-1] / o[-1] > 0.5, other={"a": "5x6"}),
    Case("Without", "x > 1 unless on (instance) y",
         _join("a.value > 1 AND b.ts IS NULL", "LEFT"), {"a": "2x6 0x2"},
         lambda v, o: v[-1] > 1 and o[-1] is None, other={"a": "1 _ 1 _ _ 1 1 1"}),
    Case("UnlessInMaintenance", "x > 1 unless on (instance) y == 1",
         _join("a.value > 1 AND (b.value IS NULL OR b.value <> 1)", "LEFT"), {"a": "2x6 0x2"},
         lambda v, o: v[-1] > 1 and o[-1] != 1, other={"a": "0 1 1 0x5"}),
    Case("Difference", "abs(x - on (instance) y) > 2", _join("abs(a.value - b.value) > 2"),
         {"a": "1 2 3 4 5 1 1"}, lambda v, o: abs(v[-1] - o[-1]) > 2, other={"a": "1x6"}),
    Case("JoinFor2m", "x > 1 and on (instance) y > 1", _join("a.value > 1 AND b.value > 1"),
         {"a": "2x7 0x2"}, lambda v, o: v[-1] > 1 and o[-1] > 1, for_minutes=2,
         other={"a": "0 2x2 0 2x3 0 0"}),
    Case("OtherInstance", "x > 1 and on (instance) y", _join("a.value > 1"),
         {"a": "2x4 0x2", "b": "2x4 0x2"}, lambda v, o: v[-1] > 1 and o[-1] is not None,
         other={"a": "1x6"}),
    Case("Team", "x > 1 and on (instance) owners",
         "SELECT s.ts, s.instance, s.value FROM sample s JOIN owners o ON o.instance = s.instance "
         "WHERE s.value > 1 AND o.team = 'red'",
         {"a": "0 2x3 0x2", "b": "2x5 0"}, lambda v, o: v[-1] > 1 and o[-1] == 1,
         other={"a": "1x5", "b": "0x5"}),
    Case("WithoutTeam", "x > 1 unless on (instance) owners",
         "SELECT s.ts, s.instance, s.value FROM sample s LEFT JOIN owners o "
         "ON o.instance = s.instance WHERE s.value > 1 AND o.team IS NULL",
         {"c": "0 2x3 0x2", "b": "2x5 0"}, lambda v, o: v[-1] > 1 and o[-1] is None,
         other={"b": "0x5"}),
]  # fmt: skip
# Whether a sample is younger than some minutes: the lookback of 5m, or the range of the function.
ABSENT = [
    Case(f"Gone{minutes}m{number}", f"absent_over_time(x[{minutes}m])", f"{minutes}m",
         {"a": series}, lambda v, o, minutes=minutes: not _last(v, minutes))
    for number, (minutes, series) in enumerate(
        [
            (5, "1x3 _x9"),
            (5, "1 _x3 1 _x9"),
            (3, "1x2 _x3 1 1 _x6"),
            (10, "1 _x14"),
            (5, "0x2 _x9"),
            (1, "1 1 _ 1 1 _ _ 1"),
            (2, "1 _ 1 _ _ 1 1"),
            (4, "1 2 3 _x8"),
            (5, "1 _x4 1 _x7"),
            (7, "1x5 _x12"),
        ]
    )
]  # fmt: skip
KINDS = {
    "threshold": THRESHOLDS,
    "for": PENDING,
    "window": WINDOWS,
    "join": JOINS,
    "absent": ABSENT,
}
