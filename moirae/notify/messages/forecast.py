"""What an alert probably is, for its messages. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

_MAX_TAGS = 3
_MAX_TEXT = 500  # characters of a tag


def describe_forecast(forecast: Mapping[str, Any]) -> dict[str, Any]:
    """The forecast of an answer as keys of a content.

    `resolution`: the most probable tags, each with its probability, its 95 % interval, and what became
    of alerts that were resolved with it. `forecast`:
    what they are by (`learned` or `frequencies`), and why; or that there are too few episodes.
    """
    basis: dict[str, Any] = {
        "by": forecast.get("by", "learned"),
        "withheld": bool(forecast.get("withheld")),
        "episodes": forecast.get("episodes"),
    }
    if forecast.get("reason"):
        basis["reason"] = forecast["reason"]
    if forecast.get("new_tag") is not None:
        basis["none_of_these"] = forecast["new_tag"]
    described: dict[str, Any] = {"forecast": basis}
    intervals = [*forecast.get("intervals", ())][:_MAX_TAGS]
    tags = []
    for number, (tag, probability) in enumerate(forecast.get("tags", ())[:_MAX_TAGS]):
        entry = {"tag": tag[:_MAX_TEXT], "probability": probability}
        if tag in forecast.get("records", {}):
            entry["record"] = forecast["records"][tag][:_MAX_TEXT]
        if number < len(intervals):
            entry["low"], entry["high"] = intervals[number]
        tags.append(entry)
    if tags:
        described["resolution"] = tags
    return described


def format_match(match: Mapping[str, Any] | None) -> list[str]:
    """Lines of a message about a `MatchEstimate`; none without one, or if it says nothing yet."""
    if match is None or match["withheld"]:
        return []
    nothing = _format_share(match["nothing_comparable"], match["nothing_comparable_interval"])
    lines = [f"nothing comparable: {nothing}"]
    if match["probability"] is not None:
        share = _format_share(match["probability"], match["interval"])
        lines.insert(0, f"most similar alert is of the same kind: {share}")
    return lines


def _format_share(probability: float, interval: Sequence[float]) -> str:
    low, high = interval
    return f"{probability:.0%}, 95 % interval {low:.0%} to {high:.0%}"


def format_forecast(described: Mapping[str, Any]) -> list[str]:
    """Lines of a message about what `describe_forecast` returned."""
    basis = described.get("forecast", {})
    if basis.get("withheld"):
        episodes = basis.get("episodes")
        return [f"probable resolution: too few to say ({episodes} resolved episodes)"]
    lines = []
    for entry in described.get("resolution", ())[:1]:
        share = f"{entry['probability']:.0%}"
        if "low" in entry:
            share = _format_share(entry["probability"], (entry["low"], entry["high"]))
        if entry["probability"] > basis.get("none_of_these", 0.0):
            record = f"; {entry['record']}" if "record" in entry else ""
            lines.append(f"probable resolution: {entry['tag']} ({share}){record}")
        else:
            lines.append(
                f"probable resolution: none of the known ones ({basis['none_of_these']:.0%})"
            )
    if basis.get("reason"):
        lines.append(basis["reason"])
    return lines
