"""AC-1: false verdicts of a norm on held-back days ÷ those of the plain mean of seven days and 3 deviations.

Both see the same rows. The plain mean says "abnormal" beyond 3 standard deviations of the seven days
before. The norm is `recall.norms.compute_norm` as a recall `normal` asks it: `season: auto`, eight
weeks, without the spans of earlier incidents. Its score is swept for the threshold at which it finds
the same share of incidents; an incident is found if one of its rows is abnormal. False verdicts are
counted on rows outside of incidents.

Worlds: the shape of a day of PlanetLab's hosts and of freeway sensors, repeated over ten weeks with
noise, quieter weekends and inserted incidents, of which the last two weeks are held back; and the
labelled series of NAB (`../shared/data`), whose windows are the incidents, after the first quarter.
"""

import csv
import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.times import to_micros
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from recall.history_ranges import DAY, HOUR
from recall.norms import AlertSpan, NormSpec, compute_norm

DATA = Path(__file__).parents[2] / "shared" / "data"
_WEEK = 7 * DAY
_SPAN = 8 * _WEEK
_PLAIN_SPAN = _WEEK
_PLAIN_DEVIATIONS = 3.0
_WEEKS = 10
_STEP = 300_000_000  # microseconds between rows
_ROWS_PER_DAY = DAY // _STEP
_START = 1_767_571_200_000_000  # Monday, 2026-01-05
_SERIES = 12  # of each kind of worlds
_EVERY = 12  # rows of held-back days of which one is asked about
_MAX_ROWS_OF_INCIDENT = 60
_LEARNING_SHARE = 0.15
_MAX_SCORE = 100.0

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelledSeries:
    """Values by time, ascending; incidents; and the time from which on days are held back."""

    times: Times
    values: Floats
    incidents: Sequence[AlertSpan]
    held_from: int


# The score of a row of a series, by its position: how abnormal it is.
FindScore = Callable[[LabelledSeries, int], float]


class Scores(NamedTuple):
    """`rows`: of rows outside of incidents; `incidents`: the highest one of each incident."""

    rows: Floats
    incidents: Floats

    @classmethod
    def join(cls, parts: Sequence["Scores"]) -> "Scores":
        """All of them together."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.incidents for part in parts]),
        )


def run() -> list[BenchmarkResult]:
    """Measure each kind of worlds."""
    rng = np.random.default_rng(57)
    kinds = {
        "NAB's labelled series": list(read_labelled_series()),
        "PlanetLab's days over ten weeks": [
            make_weeks(shape, rng, 1) for shape in _choose(read_planetlab_days(), rng)
        ],
        "freeway days over ten weeks": [
            make_weeks(shape, rng, -1) for shape in _choose(read_freeway_days(), rng)
        ],
    }
    noise = [time_noise_kernel()]
    results = []
    for name, series in kinds.items():
        plain = Scores.join([score(world, score_plainly) for world in series])
        norm = Scores.join([score(world, score_by_norm) for world in series])
        results.append(_compare(name, len(series), plain, norm, noise))
    return results


def _compare(
    name: str, count: int, plain: Scores, norm: Scores, noise: list[float]
) -> BenchmarkResult:
    found_share = float(np.mean(plain.incidents > _PLAIN_DEVIATIONS))
    false = float(np.mean(plain.rows > _PLAIN_DEVIATIONS))
    threshold = find_threshold(norm.incidents, found_share)
    false_by_norm = float(np.mean(norm.rows >= threshold))
    details = {
        "series": count,
        "incidents": len(plain.incidents),
        "found": round(found_share, 3),
        "false, plain": round(false, 5),
        "false, norm": round(false_by_norm, 5),
        "threshold": round(threshold, 2),
        "found at 3": round(float(np.mean(norm.incidents > 3)), 3),
        "false at 3": round(float(np.mean(norm.rows > 3)), 5),
    }
    print(f"AC-1 {name}: {details}", file=sys.stderr)
    return make_result(
        "AC-1",
        f"false verdicts of `normal` ÷ of the mean of 7 days ± 3 sd at equal share found, {name}",
        [false_by_norm / false],
        target="≤ 0.5",
        details=details,
        noise=noise,
    )


def find_threshold(incidents: Floats, share: float) -> float:
    """The highest threshold at which at least this share of the incidents reaches it."""
    needed = max(1, int(np.ceil(share * len(incidents) - 1e-9)))
    return float(np.sort(incidents)[::-1][needed - 1])


def score(series: LabelledSeries, find_score: FindScore) -> Scores:
    """The scores of held-back days: of each row of an incident, and of some others."""
    rows: list[float] = []
    incidents: list[float] = []
    is_incident = np.zeros(len(series.times), bool)
    for span in series.incidents:
        inside = (series.times >= span.start) & (series.times <= (span.end or 0))
        is_incident |= inside
        rows_asked = np.flatnonzero(inside & (series.times >= series.held_from))
        rows_asked = rows_asked[:: max(1, len(rows_asked) // _MAX_ROWS_OF_INCIDENT)]
        if len(rows_asked):
            incidents.append(max(find_score(series, row) for row in rows_asked.tolist()))
    usual = np.flatnonzero(~is_incident & (series.times >= series.held_from))
    for row in usual[::_EVERY].tolist():
        rows.append(find_score(series, row))
    return Scores(np.array(rows), np.array(incidents))


def score_plainly(series: LabelledSeries, row: int) -> float:
    """The distance from the mean of the seven days before, in standard deviations."""
    now = series.times[row]
    past = series.values[np.searchsorted(series.times, now - _PLAIN_SPAN) : row]
    deviation = float(past.std(ddof=1))
    distance = abs(float(series.values[row] - past.mean()))
    return distance / deviation if deviation else _MAX_SCORE * bool(distance)


def score_by_norm(series: LabelledSeries, row: int) -> float:
    """The score of the norm, without a sign; 0 where there are too few cycles."""
    now = int(series.times[row])
    first = np.searchsorted(series.times, now - _SPAN)
    alerts = [_know(span, now) for span in series.incidents if span.start < now]
    spec = NormSpec("value", "auto", "UTC", _SPAN, "alerts")
    past = slice(first, row)
    value = float(series.values[row])
    answer = compute_norm(spec, now, value, series.times[past], series.values[past], alerts)
    if answer["verdict"] == "too few cycles":
        return 0.0
    return abs(float(answer["score"]))


def _know(span: AlertSpan, now: int) -> AlertSpan:
    """An incident as it is known at a time: its end only once it has come."""
    is_over = span.end is not None and span.end <= now
    return span if is_over else AlertSpan(span.start, None)


# Data


def read_labelled_series() -> Iterator[LabelledSeries]:
    """The series of NAB; the first 15 % of each are for learning, as in the benchmark itself."""
    windows: dict[str, list[AlertSpan]] = defaultdict(list)
    for row in _read("nab/labels.csv.gz"):
        span = AlertSpan(_parse(row["window_start"]), _parse(row["window_end"]))
        windows[row["host_metric"]].append(span)
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for row in _read("nab/metrics.csv.gz"):
        values[row["host_metric"]][_parse(row["ts"])] = float(row["value"])
    for name, by_time in sorted(values.items()):
        times = np.array(sorted(by_time), np.int64)
        numbers = np.array([by_time[ts] for ts in times.tolist()])
        held_from = int(times[int(_LEARNING_SHARE * len(times))])
        yield LabelledSeries(times, numbers, windows[name], held_from)


def read_planetlab_days() -> list[Floats]:
    """The mean processor time of the slices of each host, of one day."""
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in _read("planetlab/cpu_20110303.csv.gz"):
        sums[row["host"]][row["ts"]].append(float(row["cpu_pct"]))
    days = []
    for _, by_time in sorted(sums.items()):
        if len(by_time) == _ROWS_PER_DAY:
            days.append(np.array([np.mean(by_time[ts]) for ts in sorted(by_time)]))
    return [day for day in days if day.std() > 1]


def read_freeway_days() -> list[Floats]:
    """The speed at each sensor, of the first day."""
    speeds: dict[str, list[float]] = defaultdict(list)
    for row in _read("freeway/speed.csv.gz"):
        if row["ts"].startswith("2012-03-01"):
            speeds[row["sensor"]].append(float(row["speed_mph"]))
    return [np.array(day) for _, day in sorted(speeds.items()) if len(day) == _ROWS_PER_DAY]


def make_weeks(day: Floats, rng: np.random.Generator, direction: int) -> LabelledSeries:
    """A day repeated over weeks, weekends lower, with noise that lasts about an hour, and incidents.

    Each takes 30 minutes to 5 hours and multiplies, or divides with `direction` -1, by 1.5 to 3.
    """
    times = _START + _STEP * np.arange(_WEEKS * 7 * _ROWS_PER_DAY, dtype=np.int64)
    noise = rng.normal(size=len(times))
    for row in range(1, len(noise)):
        noise[row] = 0.9 * noise[row - 1] + 0.43 * noise[row]
    is_weekend = (times - _START) // DAY % 7 >= 5
    values = np.tile(day, _WEEKS * 7) * np.where(is_weekend, 0.7, 1.0) * (1 + 0.08 * noise)
    values += 0.03 * day.mean() * rng.normal(size=len(times))
    incidents: list[AlertSpan] = []
    start = _START + int(rng.integers(_WEEK))
    while start < times[-1] - 5 * HOUR:
        end = start + int(rng.integers(HOUR // 2, 5 * HOUR))
        inside = (times >= start) & (times <= end)
        values[inside] *= rng.uniform(1.5, 3.0) ** direction
        incidents.append(AlertSpan(start, end))
        start = end + int(rng.integers(2 * DAY, 8 * DAY))
    return LabelledSeries(times, values, incidents, int(_START + (_WEEKS - 2) * _WEEK))


def _choose(days: Sequence[Floats], rng: np.random.Generator) -> list[Floats]:
    return [days[number] for number in rng.permutation(len(days))[:_SERIES]]


def _parse(text: str) -> int:
    return to_micros(datetime.fromisoformat(text))


def _read(name: str) -> Iterator[Mapping[str, str]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        yield from csv.DictReader(lines)
