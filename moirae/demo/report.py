"""What the demo shows: alerts as they come, and a summary at the end."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row
from rich.console import Console
from rich.text import Text

import sql
from archiver.ingest import Catalog
from moirae.demo.precision import FailureCase, evaluate_precision, find_cause
from moirae.demo.testbed import SimulatedFailure
from moirae.inspect import RecallAnswer, SimilarEvent, load_answers

_ALERT_QUERIES = sql.load("alerts")
# Which rule shows which kind of failure.
RULES_BY_KIND = {
    "overload": "testbed/NodeOverloaded",
    "memory": "testbed/MemoryExhausted",
    "network": "testbed/NodeUnreachable",
    "silent": "testbed/NodeSilent",
}


class AlertNarrator:
    """Tells of alerts as they come: what, what is normal there, and what it was like before."""

    def __init__(self, connection: Connection[Any], console: Console, since: datetime) -> None:
        self._connection = connection
        self._console = console
        self._since = since
        self._alerts: dict[UUID, dict[str, Any]] = {}
        self._first_hits: dict[UUID, UUID | None] = {}

    def print_new(self) -> None:
        """Whatever is new."""
        for row in self._fetch_new_alerts():
            self._alerts[row["eid"]] = row
            self._console.print(_format_headline(row))
        for eid, row in list(self._alerts.items()):
            found = load_answers(self._connection, eid)
            ended = bool(found) and all(
                answer.state not in ("waiting", "running") for answer in found
            )
            told = eid in self._first_hits
            if (
                not told
                and all(a.coverage for a in found)
                and any(a.hits is not None for a in found)
            ):
                self._print_first_answers(eid, row, found)
            if ended:
                self._print_final_answer(eid, row, found)

    def _fetch_new_alerts(self) -> list[dict[str, Any]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_ALERT_QUERIES["raised"], {"since": self._since}).fetchall()
        self._since = max([self._since, *(row["raised_at"] for row in rows)])
        return rows

    def _print_first_answers(
        self, eid: UUID, row: Mapping[str, Any], found: list[RecallAnswer]
    ) -> None:
        lines = [Text.assemble(("    about ", "dim"), row["annotations"].get("summary", ""))]
        for answer in found:
            assert answer.coverage is not None
            how = (f"  ({_format_coverage(answer.coverage)})", "dim")
            if answer.rows:
                norm = answer.rows[0]
                if norm["samples"]:
                    words = f"mean {norm['mean']:.1f} ± {norm['sd'] or 0:.1f}, at most {norm['highest']:.1f}"
                    lines.append(Text.assemble(("    normal there: ", "dim"), words, how))
            elif answer.hits is not None:
                lines.append(Text.assemble(("    most like it", "dim"), how))
                self._first_hits[eid] = answer.hits[0].eid if answer.hits else None
                lines += _format_hits(answer.hits[:3])
        self._first_hits.setdefault(eid, None)
        for line in lines:
            self._console.print(line)

    def _print_final_answer(
        self, eid: UUID, row: Mapping[str, Any], found: list[RecallAnswer]
    ) -> None:
        del self._alerts[eid]
        similar = next((answer for answer in found if answer.hits), None)
        if (
            similar is None
            or not similar.hits
            or similar.coverage is None
            or eid not in self._first_hits
        ):
            return
        if self._first_hits[eid] == similar.hits[0].eid and similar.number == 1:
            return
        same = self._first_hits[eid] == similar.hits[0].eid
        words = "the same is still most like it" if same else "most like it is now"
        read = (f"    {_format_coverage(similar.coverage)}: ", "dim")
        self._console.print(
            Text.assemble(read, (row["annotations"].get("summary", ""), "dim"), ("  ", ""), words)
        )
        for line in [] if same else _format_hits(similar.hits[:1]):
            self._console.print(line)


def _format_coverage(coverage: Mapping[str, Any]) -> str:
    return f"{coverage['read']} of {coverage['read'] + coverage['left'] + coverage['failed']} chunks read"


def _format_headline(row: Mapping[str, Any]) -> Text:
    delay = (row["raised_at"] - row["starts_at"]).total_seconds()
    return Text.assemble(
        (f" {row['labels'].get('severity', 'alert').upper():<7}", "bold red"),
        (f" {row['labels']['alertname']:<16} ", "bold"),
        row["annotations"].get("summary", ""),
        (f"  {row['starts_at']:%H:%M:%S}Z +{delay:.1f} s", "dim"),
    )


def _format_hits(hits: list[SimilarEvent]) -> list[Text]:
    lines = []
    for hit in hits:
        host = (hit.past or {}).get("key", {}).get("host", "")
        terms = ", ".join(term for term, _ in hit.shared[:3])
        lines.append(
            Text.assemble(
                (f"      {hit.score:.2f}", "cyan"),
                f"  {hit.ts:%b %d %H:%M}Z on {host}",
                ("  both ran ", "dim"),
                terms,
            )
        )
        for note in hit.resolutions[:1]:
            tag = f"  [{note['tag']}]" if note["tag"] else ""
            lines.append(
                Text.assemble(("            fixed: ", "dim"), (note["text"], "green"), (tag, "dim"))
            )
    return lines or [Text("      nothing in what was read", "dim")]


def compute_summary(
    connection: Connection[Any],
    live_from: datetime,
    failures: Sequence[SimulatedFailure],
    shift: timedelta,
) -> dict[str, Any]:
    """The demo's figures. Latency is from the event's time to the alert's row, and from there to
    the first answer of each recall, of live alerts. `shift`: how much later than planned the live
    phase was.
    """
    accounts = Catalog(connection).accounting()
    total = {name: sum(a[name] for a in accounts) for name in ("read", "archived", "duplicates")}
    dead = sum(a["malformed"] + a["quarantined"] + a["conflicts"] + a["expired"] for a in accounts)
    with connection.cursor(row_factory=dict_row) as cursor:
        counts = cursor.execute(_ALERT_QUERIES["counts"]).fetchone()
        delays = cursor.execute(_ALERT_QUERIES["delays"], {"since": live_from}).fetchone()
    tasks = sql.TaskGateway(connection)
    first = tasks.first_answer_latency(live_from)
    assert counts is not None and delays is not None
    states = counts["alerts"]
    recalls = tasks.count_by_state()
    return {
        "accounting": {**total, "dead_lettered": dead},
        "events": counts["settled_events"],
        "alerts": sum(
            n for state, n in states.items() if state in ("firing", "resolved", "provisional")
        ),
        "alerts_by_state": states,
        "recalls": {name: recalls.get(name, 0) for name in ("done", "cancelled", "failed")},
        "similar": _compute_precision(connection, live_from, failures, shift),
        "latency_ms": {
            "event_to_alert": {
                "p50": delays["p50"],
                "p99": delays["p99"],
                "alerts": delays["alerts"],
            },
            "alert_to_first_answer": {
                "p50": first.p50,
                "p99": first.p99,
                "answers": first.answers,
            },
        },
    }


def _compute_precision(
    connection: Connection[Any],
    live_from: datetime,
    failures: Sequence[SimulatedFailure],
    shift: timedelta,
) -> dict[str, object]:
    kinds = {rule: kind for kind, rule in RULES_BY_KIND.items()}
    rows = connection.execute(
        "SELECT e.eid::text, e.rule, e.key->>'host', e.ts FROM alerts a JOIN events e USING "
        "(rule, version, eid) "
        "WHERE a.fired_at IS NOT NULL AND a.state <> 'withdrawn'"
    ).fetchall()
    cases = [
        FailureCase(eid, rule, host, ts, find_cause(failures, kinds[rule], host, ts, shift))
        for eid, rule, host, ts in rows
    ]
    found: dict[str, list[str]] = {}
    for hit in sql.RevisionGateway(connection).export_hits(recall=None):
        found.setdefault(str(hit.query), []).append(hit.event)
    return evaluate_precision([case for case in cases if case.ts >= live_from], cases, found)


class DemoReport:
    """The words at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def print_result(self, result: dict[str, Any], directory: Path) -> None:
        """Figures, and where to look further."""
        account, delay = result["accounting"], result["latency_ms"]["event_to_alert"]
        self._console.print(
            f"\n{account['read']:,} records read, {account['archived']:,} archived, {account['duplicates']:,} "
            f"duplicates, {account['dead_lettered']:,} refused; {result['events']:,} events, "
            f"{result['alerts']:,} alerts."
        )
        if delay["alerts"]:
            self._console.print(
                f"From event to alert: {timedelta(milliseconds=delay['p50']).total_seconds():.2f} "
                f"s in the middle, "
                f"{timedelta(milliseconds=delay['p99']).total_seconds():.2f} s at the 99th "
                f"percentile."
            )
        similar, first = result["similar"], result["latency_ms"]["alert_to_first_answer"]
        if first.answers:
            self._console.print(
                f"From alert to a first answer from history: {first['p50'] / 1000:.2f} s in the "
                f"middle, "
                f"{first['p99'] / 1000:.2f} s at the 99th percentile."
            )
        if similar["queries"]:
            guess = similar["baselines"]["latest"]["precision_at_1"]
            self._console.print(
                f"Of {similar['queries']} live failures the most similar past one had the same "
                f"hidden cause in "
                f"{similar['precision_at_1']:.0%}; the latest past one would have had it in "
                f"{guess:.0%}."
            )
        self._console.print(
            f"Look around: cd {directory}; moirae status; moirae alerts list; moirae similar "
            f"ALERT; moirae recalls list"
        )
