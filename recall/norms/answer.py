"""The answer of a norm, from the rows of a key before an event. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from archiver.times import Micros
from recall.norms.cycles import Times, find_cycles, to_local
from recall.norms.exclusions import Exclusions, Mask, choose_exclusions, find_rows
from recall.norms.model import NORM_COLUMNS, AlertSpan, NormSpec
from recall.norms.position import ABNORMAL, MIN_CYCLES, Band, Values, find_band, find_rank
from recall.norms.season_choice import SeasonChoice, choose_season
from recall.norms.words import (
    describe_cycles,
    describe_exclusions,
    describe_history,
    describe_limit,
    describe_missing,
    describe_position,
    describe_seen,
)


@dataclass(frozen=True)
class _SeasonRows:
    """Rows of the event's season: their cycles, and which lie in the spans of past alerts.

    `in_present`: which lie in that of the event's own alert.
    """

    times: Times
    values: Values
    cycles: Times
    in_alert: Mask
    in_present: Mask
    exclusions: Exclusions

    @property
    def counted(self) -> Mask:
        return ~self.exclusions.rows


def compute_norm(
    spec: NormSpec,
    event_ts: Micros,
    value: float | None,
    times: Times,
    values: Values,
    alerts: Sequence[AlertSpan] = (),
    is_limited: bool = False,
) -> dict[str, Any]:
    """The row of the answer, with the columns `NORM_COLUMNS`.

    `value`: of the event; None: it has none. `times`, `values`: of the rows of its key before it,
    in any order; NaN is no value. `alerts`: those of its key, as they were known then.
    `is_limited`: there are older rows, which were not read.
    """
    is_number = ~np.isnan(values)
    times, values = times[is_number], values[is_number]
    history = describe_history(spec.span, event_ts - int(times.min(initial=event_ts)))
    local = to_local(spec.zone, times)
    choice = _find_season(spec, event_ts, times, local, values, alerts)
    cycles = find_cycles(choice.season, spec.zone, times, local, event_ts)
    in_season = cycles.in_season
    times, values, numbers = times[in_season], values[in_season], cycles.numbers[in_season]
    rows = _SeasonRows(
        times,
        values,
        numbers,
        in_alert=find_rows(alerts, times, event_ts),
        in_present=find_rows([a for a in alerts if a.end is None], times, event_ts),
        exclusions=choose_exclusions(alerts, spec.exclude, times, numbers, event_ts, spec.span),
    )
    missing = value is None or np.isnan(value)
    answer, sentences = _describe(choice, None if missing else value, rows, history)
    if missing:
        sentences.insert(0, describe_missing(value))
    sentences += describe_exclusions(rows.exclusions, spec.exclude)
    if is_limited:
        sentences.append(describe_limit())
    return answer | {"says": "; ".join(sentences)}


def _find_season(
    spec: NormSpec,
    event_ts: Micros,
    times: Times,
    local: Times,
    values: Values,
    alerts: Sequence[AlertSpan],
) -> SeasonChoice:
    if spec.season != "auto":
        return SeasonChoice(spec.season, "as the rule says")
    days = find_cycles("none", spec.zone, times, local, event_ts).numbers
    exclusions = choose_exclusions(alerts, spec.exclude, times, days, event_ts, spec.span)
    counted = ~exclusions.rows
    return choose_season(spec.zone, times[counted], local[counted], values[counted], event_ts)


def _describe(
    choice: SeasonChoice, value: float | None, rows: _SeasonRows, history: str
) -> tuple[dict[str, Any], list[str]]:
    """The answer but for `says`, and its sentences."""
    values, cycles = rows.values[rows.counted], rows.cycles[rows.counted]
    cycle_count = len(np.unique(cycles))
    answer: dict[str, Any] = dict.fromkeys(NORM_COLUMNS)
    answer |= {
        "verdict": "no value" if value is None else "too few cycles",
        "n": len(values),
        "cycles": cycle_count,
        "season": choice.season,
        "season_reason": choice.reason,
        "excluded": len(rows.exclusions.left_out),
        "counted_again": rows.exclusions.counted_again,
    }
    sentences: list[str] = []
    if len(values):
        band = find_band(values, cycles)
        answer |= _describe_values(values, band)
        if value is not None:
            score = band.find_score(value)
            rank = find_rank(value, values, cycles)
            answer |= {"score": score, "rank": rank.share}
            answer |= {"rank_low": rank.low, "rank_high": rank.high}
            answer |= _count_seen(value >= band.median, value, rows)
            if cycle_count >= MIN_CYCLES:
                answer["verdict"] = _find_verdict(score)
            sentences.append(describe_position(value, values, choice.season))
            if answer["verdict"] != "usual":
                seen, with_alert = answer["seen"], answer["seen_with_alert"]
                sentences.append(describe_seen(seen, with_alert, history))
    sentences.append(describe_cycles(cycle_count, choice.season))
    return answer, sentences


def _describe_values(values: Values, band: Band) -> dict[str, float | None]:
    return {
        "median": band.median,
        "q025": band.q025,
        "q25": band.q25,
        "q75": band.q75,
        "q975": band.q975,
        "low": band.low,
        "high": band.high,
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else None,
    }


def _find_verdict(score: float) -> str:
    if abs(score) <= ABNORMAL:
        return "usual"
    return "higher" if score > 0 else "lower"


def _count_seen(is_high: bool, value: float, rows: _SeasonRows) -> dict[str, int]:
    """In how many earlier cycles a value was as extreme, in how many of them in an alert."""
    reached = rows.values >= value if is_high else rows.values <= value
    reached &= ~rows.in_present
    return {
        "seen": len(np.unique(rows.cycles[reached])),
        "seen_with_alert": len(np.unique(rows.cycles[reached & rows.in_alert])),
    }
