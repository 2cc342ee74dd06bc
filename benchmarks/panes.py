"""P1: what a slide of a long window costs when windows are merged of panes, beside aggregating each window anew.

One rule in the live process's own judges, over rows in memory, slide by slide: by `Panes`, whose panes of the slides
before are at hand; by `LocalJudge` over all rows of the slice, which puts each into all windows that hold it; and over
the rows of the one window that has closed, which is the least that can be done without panes.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import duckdb
import numpy as np
import pyarrow as pa

from archiver.times import to_micros
from benchmarks.results import Result, kernel, result
from moirae.judging.local import LocalJudge
from moirae.judging.panes import Panes
from moirae.judging.plan import Running, Slice, Standing, due, moved, view
from moirae.judging.share import Sharing
from moirae.rules.definition import Definition
from moirae.rules.model import Alert
from moirae.rules.ruleset import Rule
from recall.query.shape import Tables, shape

_REPETITIONS = 5
_START = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
_SECOND = 1_000_000
_RATE, _HOSTS = 500, 100
# Slides by panes in a repetition; aggregating anew, one is enough.
_SLIDES = 8
_COLUMNS = {"ts": "timestamp", "host": "string", "n": "bigint", "cpu": "double"}


class Rows:
    """Rows at `_RATE` a second, in memory."""

    def __init__(self, seconds: int) -> None:
        rng, count = np.random.default_rng(1), seconds * _RATE
        self._ts = _START + np.arange(count) * (_SECOND // _RATE)
        hosts = pa.array([f"h{i}" for i in range(_HOSTS)]).take(pa.array(rng.integers(0, _HOSTS, count)))
        values = [pa.array(self._ts, pa.timestamp("us", "UTC")), hosts]
        values += [pa.array(np.arange(count)), pa.array(rng.uniform(0, 100, count).round(2))]
        self._rows = pa.table(dict(zip(_COLUMNS, values, strict=True)))

    def between(self, low: int | None, high: int) -> pa.Table:
        """Those of a span of event time, microseconds."""
        first = 0 if low is None else int(np.searchsorted(self._ts, low))
        return self._rows.slice(first, int(np.searchsorted(self._ts, high)) - first)

    def at_hand(self, stream: str, low: int | None, high: int | None) -> None:
        """See `moirae.judging.panes.Pieces`: panes are to be kept however few they are."""

    def pieces(self, stream: str, low: int | None, high: int) -> Iterator[pa.Table]:
        """See `moirae.judging.panes.Pieces`."""
        yield self.between(low, high)


def run() -> list[Result]:
    """Measure windows of an hour that slide by a minute, and of three minutes."""
    return [_measured(60, "≤ 0.02"), _measured(3, "≤ 1")]


def _measured(slides: int, target: str) -> Result:
    """Windows that are so many slides of a minute long."""
    rows = Rows((slides + 2 + _SLIDES) * 60)
    noise, ratios, seconds = [], [], dict[str, list[float]]()
    for repetition in range(_REPETITIONS):
        noise.append(kernel())
        took = _repetition(rows, slides)
        for name, value in took.items():
            seconds.setdefault(name, []).append(value)
        ratios.append(took["panes, s"] / took["anew, s"])
        last = {name: round(value, 4) for name, value in took.items()}
        print(f"P1 {slides} slides {repetition + 1}/{_REPETITIONS} {last}", file=sys.stderr)
    what = f"a slide of a window {slides} slides long: merged of panes ÷ aggregated anew ({_RATE} rows/s, a minute)"
    beside = {name: round(statistics.median(values), 4) for name, values in seconds.items()}
    return result("P1", what, ratios, target, beside, noise)


def _repetition(rows: Rows, slides: int) -> dict[str, float]:
    """Seconds of one slide, each way; and of making all panes, as after a restart."""
    local, sharing, standings = LocalJudge(), Sharing({"cpu": _COLUMNS}), [_standing(slides)]
    panes = Panes(local, rows)
    took: dict[str, list[float]] = {"all panes, s": [], "panes, s": [], "anew, s": [], "one window's rows, s": []}
    for slide in range(_SLIDES):
        (part,) = due(standings, {"cpu": _START + (slides + 1 + slide) * 60 * _SECOND})
        shares = sharing.of(part.rules)
        name = "panes, s" if slide else "all panes, s"
        took[name].append(_seconds(lambda part=part, shares=shares: panes.found(part, shares)))  # type: ignore[misc]
        assert part.high is not None
        standings = moved(standings, {rule.rule for rule in part.rules}, part.high)
    held = _held(rows, part)
    took["anew, s"].append(_seconds(lambda: local.found(shares.groups, {"cpu": held})))
    took["one window's rows, s"].append(_one_window(held, slides))
    return {name: statistics.median(values) for name, values in took.items()}


def _standing(slides: int) -> Standing:
    expr = (
        "SELECT host, window.end AS ts, avg(cpu) AS mean, max(cpu) AS top, count(*) AS n FROM cpu "
        f"GROUP BY host, window(ts, '{slides} minutes', '1 minute') HAVING avg(cpu) > 99"
    )
    tables = Tables({"cpu": "ts"})
    types = {"host": "string", "mean": "double", "top": "double", "n": "bigint"}
    rule = Rule("bench", Alert(alert="Long", expr=expr))
    found = shape(expr, tables)
    running = Running(Definition(rule, types, ("host",), ("host",)), tables, found)
    return Standing(found, _START + slides * 60 * _SECOND, (running,))


def _held(rows: Rows, part: Slice) -> pa.Table:
    assert part.input_high is not None
    return rows.between(part.input_low, part.input_high)


def _one_window(held: pa.Table, slides: int) -> float:
    """The same aggregates of the last rows, without any windows."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as duck:
        duck.register(view("cpu"), held.slice(max(0, len(held) - slides * 60 * _RATE)))
        query = "SELECT host, avg(cpu), max(cpu), count(*) FROM in_cpu GROUP BY host HAVING avg(cpu) > 99"
        return _seconds(lambda: duck.sql(query).to_arrow_table())


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
