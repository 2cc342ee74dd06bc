"""Output of the demo: alerts when they are raised, and a summary at the end."""

import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.text import Text

import sql
from moirae.config import Settings
from moirae.demo.failures import SimulatedFailure
from moirae.demo.precision import FailureCase, evaluate_precision, find_cause
from moirae.demo.resolutions import RULES_BY_KIND
from moirae.inspect import sum_accounting
from moirae.inspect.past_events import RecallAnswer, SimilarEvent, count_chunks, load_answers
from sql.alerts import AlertGateway, RaisedAlertRow
from sql.archive import UnitGateway
from sql.recalls import RevisionGateway, TaskGateway
from sql.reports import DemoGateway

_OPEN_STATES = frozenset({"waiting", "running"})  # of a recall
_RAISED_STATES = ("firing", "resolved", "provisional")  # of an alert that was raised
_FIRST_HIT_COUNT = 3  # similar events printed with the first answer
_MIN_PROBABILITY = 0.005  # of a resolution that is printed
# What part of history says what is normal, as on the dashboard. The newest chunk holds the failure
# itself; a standard deviation of fewer samples is wrong by more than 13 %.
_MIN_CHUNKS = 2
_MIN_SHARE = 0.1  # of the chunks
_MIN_SAMPLES = 30


class AlertNarrator:
    """Prints live alerts, what is normal on their hosts, and similar past alerts."""

    def __init__(self, connection: sql.Connection, console: Console, since: datetime) -> None:
        self._connection = connection
        self._console = console
        self._since = since
        # Alerts whose recalls have not ended.
        self._alerts: dict[UUID, RaisedAlertRow] = {}
        # The most similar event of the first answer printed for an alert; None: no similar event.
        self._first_hits: dict[UUID, UUID | None] = {}

    def print_new(self) -> None:
        """Print new alerts, and new first and final answers."""
        for row in self._fetch_new_alerts():
            self._alerts[row.eid] = row
            self._console.print(_format_headline(row))
        for eid, row in list(self._alerts.items()):
            answers = load_answers(self._connection, eid)
            if eid not in self._first_hits and _have_first_answers(answers):
                self._print_first_answers(eid, row, answers)
            if _have_ended(answers):
                self._print_final_answer(eid, row, answers)

    def _fetch_new_alerts(self) -> list[RaisedAlertRow]:
        alerts = AlertGateway(self._connection).list_raised(self._since)
        for alert in alerts:
            self._since = max(self._since, alert.raised_at)
        return alerts

    def _print_first_answers(
        self, eid: UUID, row: RaisedAlertRow, answers: Sequence[RecallAnswer]
    ) -> None:
        self._first_hits[eid] = None
        summary = row.annotations.get("summary", "")
        self._console.print(Text.assemble(("    about ", "dim"), summary))
        for answer in answers:
            assert answer.coverage is not None
            coverage = (f"  ({_format_coverage(answer.coverage)})", "dim")
            if answer.rows:
                self._print_norm(answer.rows[0], answer.coverage)
            elif answer.hits is not None:
                if answer.hits:
                    self._first_hits[eid] = answer.hits[0].eid
                self._console.print(Text.assemble(("    most similar", "dim"), coverage))
                self._print_hits(answer.hits[:_FIRST_HIT_COUNT])
                if answer.forecast is not None:
                    heading = Text("    probable resolution: ", "dim")
                    self._print_hanging(heading, _format_forecast(answer.forecast))

    def _print_final_answer(
        self, eid: UUID, row: RaisedAlertRow, answers: Sequence[RecallAnswer]
    ) -> None:
        """Print the final similar event, unless the first answer was already the final one."""
        del self._alerts[eid]
        similar = next((answer for answer in answers if answer.hits), None)
        if similar is None or not similar.hits or similar.coverage is None:
            return
        if eid not in self._first_hits:
            return
        is_unchanged = self._first_hits[eid] == similar.hits[0].eid
        if is_unchanged and similar.number == 1:
            return
        text = "now most similar"
        if is_unchanged:
            text = "most similar is the same"
        coverage = Text(f"    {_format_coverage(similar.coverage)}: ", "dim")
        summary = (row.annotations.get("summary", ""), "dim")
        self._print_hanging(coverage, Text.assemble(summary, "  ", text))
        if not is_unchanged:
            self._print_hits(similar.hits[:1])
        for answer in answers:
            if answer.kind != "sql" or answer.coverage is None:
                continue
            if answer.rows:
                self._print_norm(answer.rows[0], answer.coverage)

    def _print_norm(self, answer: Mapping[str, Any], coverage: Mapping[str, Any]) -> None:
        """Of a recall `normal` its sentence, of statistics the mean, if there are samples."""
        if "says" in answer:
            label = (f"    {answer['verdict']} there: ", "dim")
            self._print_hanging(Text.assemble(label), Text(str(answer["says"])))
        elif answer["samples"]:
            self._console.print(format_norm(answer, coverage))

    def _print_hits(self, hits: Sequence[SimilarEvent]) -> None:
        """Print each hit with its first resolution."""
        if not hits:
            self._console.print(Text("      no similar event in the chunks read", "dim"))
        for hit in hits:
            self._print_hanging(Text(f"      {hit.score:.2f}  ", "cyan"), _format_hit(hit))
            if hit.resolutions:
                note = _format_resolution(hit.resolutions[0])
                self._print_hanging(Text("            fixed: ", "dim"), note)

    def _print_hanging(self, label: Text, text: Text) -> None:
        """Print a label and a text; the lines of a long text are aligned beside the label."""
        indent = Text(" " * label.cell_len)
        width = max(self._console.width - label.cell_len, 1)
        for number, line in enumerate(text.wrap(self._console, width)):
            line.rstrip()
            self._console.print((indent if number else label) + line)


def _format_forecast(forecast: Mapping[str, Any]) -> Text:
    """The most probable resolutions, and the probability of none of these."""
    if forecast.get("withheld"):
        return Text("too few to say")
    parts = []
    for tag, probability in forecast["tags"]:
        if probability >= _MIN_PROBABILITY:
            parts.append(f"{tag} {probability:.2f}")
    if forecast["new_tag"] is not None:
        parts.append(f"none of these {forecast['new_tag']:.2f}")
    return Text(", ".join(parts))


def _have_first_answers(answers: Sequence[RecallAnswer]) -> bool:
    """Whether all recalls of an alert have an answer, among them one about similar events."""
    has_hits = False
    for answer in answers:
        if not answer.coverage:
            return False
        has_hits = has_hits or answer.hits is not None
    return has_hits


def _have_ended(answers: Sequence[RecallAnswer]) -> bool:
    """Whether all recalls of an alert have ended; False if it has none."""
    states = {answer.state for answer in answers}
    return bool(states) and states.isdisjoint(_OPEN_STATES)


def format_norm(statistics: Mapping[str, Any], coverage: Mapping[str, Any]) -> Text:
    """The statistics of a host. Those of a small part of history do not say what is normal."""
    known_count, chunk_count = count_chunks(coverage)
    is_enough = known_count >= max(_MIN_CHUNKS, _MIN_SHARE * chunk_count)
    is_enough = is_enough and statistics["samples"] >= _MIN_SAMPLES
    label, hint = "normal there", ""
    if not coverage["final"]:
        label = "normal there so far" if is_enough else "there so far"
        hint = "" if is_enough else ", too few to judge"
    return Text.assemble(
        (f"    {label}: ", "dim"),
        _format_statistics(statistics),
        (f"  ({_format_coverage(coverage)}{hint})", "dim"),
    )


def _format_statistics(row: Mapping[str, Any]) -> str:
    deviation = row["sd"] or 0  # None for a single sample
    return f"mean {row['mean']:.1f} ± {deviation:.1f}, at most {row['highest']:.1f}"


def _format_coverage(coverage: Mapping[str, Any]) -> str:
    known_count, chunk_count = count_chunks(coverage)
    return f"{known_count} of {chunk_count} chunks read"


def _format_headline(row: RaisedAlertRow) -> Text:
    """Severity, name and summary of an alert, its start, and the delay until it was raised."""
    delay = (row.raised_at - row.starts_at).total_seconds()
    severity = row.labels.get("severity", "alert").upper()
    return Text.assemble(
        (f" {severity:<7}", "bold red"),
        (f" {row.labels['alertname']:<16} ", "bold"),
        row.annotations.get("summary", ""),
        (f"  {row.starts_at:%H:%M:%S}Z +{delay:.1f} s", "dim"),
    )


def _format_hit(hit: SimilarEvent) -> Text:
    """Time and host of a similar event, and the processes that both hosts ran."""
    host = ""
    if hit.past is not None:
        host = hit.past.get("key", {}).get("host", "")
    terms = ", ".join(term for term, _ in hit.shared[:3])
    return Text.assemble(f"{hit.ts:%b %d %H:%M}Z on {host}", ("  both ran ", "dim"), terms)


def _format_resolution(note: Mapping[str, Any]) -> Text:
    tag = ""
    if note["tag"]:
        tag = f"  [{note['tag']}]"
    return Text.assemble((note["text"], "green"), (tag, "dim"))


def compute_summary(
    connection: sql.Connection,
    live_from: datetime,
    failures: Sequence[SimulatedFailure],
    shift: timedelta,
) -> dict[str, Any]:
    """The demo's figures, as `demo --once -o json` prints them.

    Latency, of live alerts, is from the time of the event until the alert is stored, and from there
    until the first answer of each recall; in milliseconds. `forecast`: what the first live alert
    probably is of those whose answer says so; None: no answer does. `shift`: how much later than
    planned the live phase was.
    """
    alerts = AlertGateway(connection)
    counts = alerts.count_by_state()
    delays = alerts.delays(live_from)
    tasks = TaskGateway(connection)
    first = tasks.first_answer_latency(live_from)
    states = counts.alerts
    recalls = tasks.count_by_state()
    return {
        "accounting": sum_accounting(UnitGateway(connection).sum_by_stream()),
        "events": counts.settled_events,
        "alerts": sum(states.get(state, 0) for state in _RAISED_STATES),
        "alerts_by_state": states,
        "recalls": {state: recalls.get(state, 0) for state in ("done", "cancelled", "failed")},
        "similar": _compute_precision(connection, live_from, failures, shift),
        "forecast": _find_first_forecast(connection, live_from),
        "latency_ms": {
            "event_to_alert": {
                "p50": delays.p50,
                "p99": delays.p99,
                "alerts": delays.alerts,
            },
            "alert_to_first_answer": {
                "p50": first.p50,
                "p99": first.p99,
                "answers": first.answers,
            },
        },
    }


def _find_first_forecast(connection: sql.Connection, live_from: datetime) -> dict[str, Any] | None:
    for alert in AlertGateway(connection).list_raised(live_from):
        if alert.starts_at < live_from:
            continue
        for answer in load_answers(connection, alert.eid):
            if answer.forecast is not None:
                return {"alert": alert.id, "rule": alert.rule, **answer.forecast}
    return None


def _compute_precision(
    connection: sql.Connection,
    live_from: datetime,
    failures: Sequence[SimulatedFailure],
    shift: timedelta,
) -> dict[str, object]:
    """The precision of the last answers of all similarity recalls."""
    kinds_by_rule = {rule: kind for kind, rule in RULES_BY_KIND.items()}
    cases = []
    for event in DemoGateway(connection).list_events_of_alerts():
        cause = find_cause(failures, kinds_by_rule[event.rule], event.host, event.ts, shift)
        cases.append(FailureCase(event.eid, event.rule, event.host, event.ts, cause))
    answers: dict[str, list[str]] = defaultdict(list)
    for hit in RevisionGateway(connection).export_hits(recall=None):
        answers[str(hit.query)].append(hit.event)
    live_cases = [case for case in cases if case.ts >= live_from]
    return evaluate_precision(live_cases, cases, answers)


class DemoReport:
    """Prints the summary at the end of the demo."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def print_dashboard(self, login_url: str | None, recurring: bool) -> None:
        """Print where the dashboard is, and what to try there.

        `login_url`: None if the server does not run. `recurring`: similar alerts will follow.
        """
        if login_url is None:
            self._console.print(
                "The dashboard is not running: up.log has the reason. If its port is in use, choose "
                "another one with `moirae demo --port PORT`.\n",
                highlight=False,
            )
            return
        self._console.print("Dashboard (this URL logs in once, within ten minutes):")
        self._console.print(f"  {login_url}", soft_wrap=True, highlight=False)
        if recurring:
            self._console.print(
                "Resolve an alert on its page; the next similar one shows what you wrote. Failures "
                "of the first half recur in the second half, on other hosts."
            )
        self._console.print()

    def print_live_phase_over(self, settings: Settings) -> None:
        """Print that the dashboard remains, and how to log in again."""
        self._console.print(
            "\nThe live phase is over: no more rows arrive. The dashboard stays up until Ctrl-C.\n"
            "For another login URL, run in a second terminal:"
        )
        _print_command(self._console, "tokens login-url demo", settings.file)

    def print_result(self, result: Mapping[str, Any]) -> None:
        """Print the figures of `compute_summary`."""
        account = result["accounting"]
        self._console.print(
            f"\n{account['read']:,} records read: {account['archived']:,} archived, "
            f"{account['duplicates']:,} duplicates, {account['dead_lettered']:,} dead letters; "
            f"{result['events']:,} events, {result['alerts']:,} alerts."
        )
        delay = result["latency_ms"]["event_to_alert"]
        if delay["alerts"]:
            self._print_latency("From event to alert", delay)
        first = result["latency_ms"]["alert_to_first_answer"]
        if first["answers"]:
            self._print_latency("From alert to first answer from history", first)
        similar = result["similar"]
        if similar["queries"]:
            latest = similar["baselines"]["latest"]["precision_at_1"]
            self._console.print(
                f"Of {similar['queries']} live failures, the most similar past failure had the "
                f"same hidden cause in {similar['precision_at_1']:.0%}; the latest past failure "
                f"in {latest:.0%}."
            )

    def _print_latency(self, label: str, latency: Mapping[str, Any]) -> None:
        """`latency`: in milliseconds."""
        median = latency["p50"] / 1000
        p99 = latency["p99"] / 1000
        self._console.print(f"{label}: median {median:.2f} s, 99th percentile {p99:.2f} s.")


def print_previous_workspace(console: Console, previous: Path) -> None:
    """Print where the workspace of the demo before this one is."""
    console.print(
        f"The workspace of the last demo, with its notes, is now {shorten_path(previous)}. The next "
        "demo deletes it: rename it to keep it.",
        highlight=False,
    )


def print_next_commands(console: Console, workspace: Path) -> None:
    """Print commands for a closer look at a workspace that does not run; they can be copied."""
    directory = shorten_path(workspace.parent)
    console.print(
        f"\nThe demo has ended. Its workspace {directory} remains, with all notes. The next demo moves "
        f"it to {directory}.old. Run the workspace again, with its dashboard:",
        highlight=False,
    )
    _print_command(console, "up", workspace)
    console.print("Then, in a second terminal, print a URL that opens the dashboard:")
    _print_command(console, "tokens login-url demo", workspace)
    console.print("Or list the alerts; `similar` and `recalls show` take an ID of the list:")
    _print_command(console, "alerts list", workspace)


def _print_command(console: Console, arguments: str, workspace: Path) -> None:
    """Print a command as it works in the current directory; a long one is not wrapped."""
    command = f"  {_find_program()} {arguments} --workspace {shlex.quote(shorten_path(workspace))}"
    console.print(command, highlight=False, markup=False, soft_wrap=True)


def _find_program() -> str:
    """How to start `moirae` from the current directory: as the demo was started."""
    program = Path(sys.argv[0])
    if program.name != "moirae":
        return f"{shlex.quote(shorten_path(Path(sys.executable)))} -m moirae"
    on_path = shutil.which("moirae")
    if on_path is not None and Path(on_path).absolute() == program.absolute():
        return "moirae"
    return shlex.quote(shorten_path(program))


def shorten_path(path: Path) -> str:
    """A path relative to the current directory if it is in it, otherwise the absolute path."""
    absolute = path.absolute()
    with suppress(ValueError):
        return str(absolute.relative_to(Path.cwd()))
    return str(absolute)
