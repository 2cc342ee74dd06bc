"""The report of `moirae rules backtest` as text."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from moirae.cli.options import escape_control, format_count, format_time, print_table

_BAR = 40  # characters of the longest bar
MAX_LISTED = 20  # alerts; JSON has all


def print_report(report: Mapping[str, Any]) -> None:
    """Print what each rule would have done, and what it would have caught."""
    for rule in report["rules"]:
        _print_rule(rule)
    if "incidents" in report:
        _print_incidents(report["incidents"])


def _print_rule(rule: Mapping[str, Any]) -> None:
    print(f"\n{rule['rule']}")
    for note in rule["notes"]:
        print(f"  {note}")
    if "alerts" not in rule:
        return
    statistics = rule["statistics"]
    note = "" if rule["complete"] else " (incomplete: alerts at the beginning may be older)"
    print(f"  {format_time(rule['from'])} to {format_time(rule['to'])}{note}")
    hidden = f", {rule['hidden']:,} hidden by where" if rule["hidden"] else ""
    events = format_count(rule["events"], "event")
    print(f"  {events}, {format_count(statistics['alerts'], 'alert')} fired{hidden}")
    _print_bars(statistics["by_day"])
    if statistics["alerts"]:
        hours = " ".join(map(str, statistics["by_hour"]))
        print(f"  by hour (UTC, from 0): {hours}")
    busiest = statistics["noisiest"]
    if busiest is not None:
        start, _, count = busiest
        print(f"  noisiest hour: from {format_time(start)}, {format_count(count, 'alert')}")
    start, end, _ = statistics["quietest"]
    print(f"  longest quiet span: {format_time(start)} to {format_time(end)}")
    for name, counts in statistics["by_label"].items():
        if name != "alertname" and len(counts) > 1:
            values = ", ".join(f"{value} {count:,}" for value, count in counts.items())
            print(f"  by {name}: {escape_control(values)}")
    shown = [alert for alert in rule["alerts"] if alert["fired_at"] and not alert["is_hidden"]]
    if shown:
        _print_alerts(shown, statistics["alerts"])
    _print_late_rows(rule["late_rows"])
    if rule.get("change") is not None:
        _print_change(rule["change"])


def _print_bars(counts: Mapping[str, int]) -> None:
    highest = max(1, *counts.values())
    for day, count in counts.items():
        print(f"  {day} {count:6,} {'#' * -(-_BAR * count // highest)}".rstrip())


def _print_alerts(alerts: Sequence[Mapping[str, Any]], count: int) -> None:
    """`count`: of all that fired."""
    rows = []
    for alert in alerts[-MAX_LISTED:]:
        labels = {name: value for name, value in alert["labels"].items() if name != "alertname"}
        times = (alert["fired_at"], alert["ends_at"])
        rows.append((str(alert["id"])[:8], alert["state"], *times, alert["events"], labels))
    print_table(["alert", "state", "fired", "ended", "events", "labels"], rows, "")
    if count > len(rows):
        print(f"… and {count - len(rows):,} earlier (use -o json)")


def _print_late_rows(alerts: Sequence[Mapping[str, Any]]) -> None:
    if not alerts:
        return
    print("late rows: recalls about these alerts read rows that may have come too late live")
    rows = []
    for alert in alerts[-MAX_LISTED:]:
        counts = ", ".join(f"{name} {count:,}" for name, count in alert["rows"].items())
        rows.append((str(alert["id"])[:8], alert["starts_at"], counts))
    print_table(["alert", "started", "late rows by recall"], rows, "")


def _print_change(change: Mapping[str, Any]) -> None:
    counts = [f"{len(change[kind]):,} {kind}" for kind in ("new", "gone", "moved")]
    print(f"  compared with version {change['version'][:8]}: {', '.join(counts)}, ", end="")
    print(f"{change['unchanged']:,} unchanged")
    signed = [("+", alert) for alert in change["new"][:MAX_LISTED]]
    signed += [("-", alert) for alert in change["gone"][:MAX_LISTED]]
    signed += [("~", pair["after"]) for pair in change["moved"][:MAX_LISTED]]
    rows = [
        (sign, str(alert["id"])[:8], alert["fired_at"], alert["labels"]) for sign, alert in signed
    ]
    if rows:
        print_table(["", "alert", "fired", "labels"], rows, "")
        print("their rows:")
        for sign, alert in signed:
            for query in alert["rows"].values():
                print(f'  {sign} {str(alert["id"])[:8]} moirae query "{escape_control(query)}"')


def _print_incidents(incidents: Mapping[str, Any]) -> None:
    caught, missed = incidents["caught"], incidents["missed"]
    print(f"\nincidents: {len(caught):,} of {len(caught) + len(missed):,} caught, ", end="")
    print(f"{format_count(len(incidents['false_alerts']), 'alert')} of no incident")
    rows: list[tuple[Any, ...]] = [
        ("caught", row["id"], timedelta(seconds=row["delay"]), len(row["alerts"])) for row in caught
    ]
    rows += [("missed", row["id"], None, 0) for row in missed]
    print_table(["", "incident", "first alert after", "alerts"], rows, "no incidents")
