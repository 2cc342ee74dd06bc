"""`/metrics`: what all processes have stored with their heartbeats, and counts of the database."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import get_args

from fastapi import FastAPI, Request
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from starlette.responses import Response

import sql
from archiver.clock import utc_now
from archiver.ingest import Catalog
from archiver.times import to_micros
from moirae import __version__
from moirae.inspect import (
    DEAD_LETTER_COUNTERS,
    StateReport,
    collect_state,
    describe_stored_bytes,
    list_incomplete_rules,
    list_set_aside,
)
from moirae.runtime import list_processes, merge_metrics, read_backup_state
from moirae.server.pool import ConnectionPool
from moirae.server.route_table import RouteAccess
from moirae.server.routes.exposition import expose
from sql.alerts import AlertGateway
from sql.archive import (
    ChunkGateway,
    RelationGateway,
    SkippedRecordsGateway,
    StreamGateway,
    SubjectKind,
    UnitGateway,
)
from sql.processes import ProcessGateway
from sql.recalls import TaskGateway
from sql.rules import DeploymentGateway, DeploymentRow, LostVerdictGateway
from sql.topics import LostRecordsGateway, SourceErrorGateway

METRICS_PATH = "/metrics"
_ALERTMANAGER_VERSION = "0.25.0"  # with which the API is compared by tests
_AHEAD_AGE = timedelta(hours=1)  # since rows of a key were last ahead of the clock
_MICROS_PER_SECOND = 1_000_000
_MAX_INCOMPLETE_RULES = 100  # that have a series of their own


def add_metrics_route(app: FastAPI, pool: ConnectionPool) -> list[RouteAccess]:
    """Add the route of the metrics."""

    @app.get(
        METRICS_PATH,
        tags=["service"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        openapi_extra={"x-required-role": "viewer"},
    )
    def metrics(request: Request) -> Response:
        """Metrics for Prometheus, as OpenMetrics or in its text format."""
        with pool.connection() as connection:
            families = list(collect_metrics(connection))
        return expose(request, families)

    return [RouteAccess("GET", METRICS_PATH, "viewer")]


def collect_metrics(connection: sql.Connection) -> Iterator[Metric]:
    """All metrics of a workspace."""
    yield InfoMetricFamily("moirae_build", "The running version.", {"version": __version__})
    # Karma chooses by it how to speak to the server.
    yield InfoMetricFamily(
        "alertmanager_build",
        "The version of Alertmanager whose API the server answers.",
        {"version": _ALERTMANAGER_VERSION},
    )
    state = collect_state(connection)
    yield from _collect_processes(connection)
    yield from _collect_restarts(connection, state)
    yield from _collect_records(connection)
    yield from _collect_event_times(connection)
    yield from _collect_unread_input(connection, state)
    yield from _collect_topics(connection)
    yield from _collect_counts(connection)
    yield from _collect_backups(connection)
    yield _count_maintenance_errors(connection)
    yield from _collect_stored_bytes(connection)
    yield from merge_metrics(ProcessGateway(connection).list_metrics())


def _collect_processes(connection: sql.Connection) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "moirae_process_up", "Whether a process runs and sends heartbeats.", labels=["process"]
    )
    heartbeat = GaugeMetricFamily(
        "moirae_process_heartbeat_timestamp_seconds",
        "When a process sent its last heartbeat.",
        labels=["process"],
    )
    processes = list_processes(connection)
    starts = CounterMetricFamily(
        "moirae_process_starts", "How often a process was started.", labels=["process"]
    )
    for process in processes:
        starts.add_metric([process["role"]], process["epoch"])
        up.add_metric([process["role"]], float(process["alive"]))
        heartbeat.add_metric([process["role"]], process["beat_at"].timestamp())
    yield up
    yield heartbeat
    yield starts


def _collect_backups(connection: sql.Connection) -> Iterator[Metric]:
    """The age of the last complete backup, if there is one, and whether a later one failed."""
    state = read_backup_state(connection, schedule=None)
    age = GaugeMetricFamily("moirae_backup_age_seconds", "Age of the last complete backup.")
    if state.age is not None:
        age.add_metric([], state.age.total_seconds())
    failing = GaugeMetricFamily(
        "moirae_backup_failed", "Whether a backup failed since the last complete one."
    )
    failing.add_metric([], state.failure is not None)
    yield age
    yield failing


def _count_maintenance_errors(connection: sql.Connection) -> Metric:
    errors = GaugeMetricFamily(
        "moirae_maintenance_errors",
        "Maintenance tasks of chunks that failed at their last try.",
        labels=["task"],
    )
    tasks = Counter(row.task for row in ChunkGateway(connection).list_errors())
    for task, count in tasks.items():
        errors.add_metric([task], count)
    return errors


def _collect_stored_bytes(connection: sql.Connection) -> Iterator[Metric]:
    """What the workspace takes on disk; nothing before it was measured."""
    storage = describe_stored_bytes(connection, {})
    if storage["measured_at"] is None:
        return
    sizes = GaugeMetricFamily("moirae_stored_bytes", "Bytes on disk by kind.", labels=["kind"])
    for kind, size in storage["kinds"].items():
        sizes.add_metric([kind], size)
    of_streams = GaugeMetricFamily(
        "moirae_stream_stored_bytes",
        "Bytes on disk of a stream by kind.",
        labels=["stream", "kind"],
    )
    rates = GaugeMetricFamily(
        "moirae_stream_stored_bytes_per_day",
        "Bytes that the rows of a day of event time take, over the newest closed chunks.",
        labels=["stream"],
    )
    for stream in storage["streams"]:
        for kind, size in stream["kinds"].items():
            of_streams.add_metric([stream["stream"], kind], size)
        if stream["bytes_per_day"] is not None:
            rates.add_metric([stream["stream"]], stream["bytes_per_day"])
    yield sizes
    yield of_streams
    yield rates


def _collect_restarts(connection: sql.Connection, state: StateReport) -> Iterator[Metric]:
    """Processes that ended by an error within a day."""
    failures = GaugeMetricFamily(
        "moirae_process_failures",
        "How often a process ended by an error within the last hour.",
        labels=["process"],
    )
    crash_loop = GaugeMetricFamily(
        "moirae_process_crash_loop",
        "Whether a process keeps ending by errors, or did so within ten minutes.",
        labels=["process"],
    )
    last_failure = GaugeMetricFamily(
        "moirae_process_last_failure_timestamp_seconds",
        "When a process last ended by an error, with the reason.",
        labels=["process", "reason"],
    )
    restarts = {restart["process"]: restart for restart in state["restarts"]}
    roles = {process["role"] for process in list_processes(connection)}
    for role in sorted(roles | restarts.keys()):
        restart = restarts.get(role)
        failures.add_metric([role], 0 if restart is None else restart["last_hour"])
        crash_loop.add_metric([role], restart is not None and restart["is_crash_loop"])
        if restart is not None:
            last_failure.add_metric([role, restart["reason"]], restart["last_ended_at"].timestamp())
    yield failures
    yield crash_loop
    yield last_failure


def _collect_records(connection: sql.Connection) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "moirae_records",
        "Records read, and what became of them: archived, duplicate or dead letter.",
        labels=["stream", "result"],
    )
    late = CounterMetricFamily(
        "moirae_late_rows", "Archived rows that were late.", labels=["stream"]
    )
    skipped = CounterMetricFamily(
        "moirae_skipped_records",
        "Records that are not rows, and are not counted as read, by reason.",
        labels=["stream", "reason"],
    )
    late_by_ahead = CounterMetricFamily(
        "moirae_late_rows_by_ahead",
        "Archived rows that were late because the watermark followed rows ahead of the clock.",
        labels=["stream"],
    )
    for counts in UnitGateway(connection).sum_by_stream():
        records.add_metric([counts.stream, "read"], counts.read)
        records.add_metric([counts.stream, "archived"], counts.archived)
        records.add_metric([counts.stream, "duplicate"], counts.duplicates)
        for reason in DEAD_LETTER_COUNTERS:
            records.add_metric([counts.stream, reason], getattr(counts, reason))
        late.add_metric([counts.stream], counts.late)
        late_by_ahead.add_metric([counts.stream], counts.late_by_ahead)
        skipped.add_metric([counts.stream, "tombstone"], counts.tombstones)
        skipped.add_metric([counts.stream, "punctuation"], counts.punctuations)
    for row in SkippedRecordsGateway(connection).list_all():
        skipped.add_metric([row.stream, row.reason], row.records)
    yield records
    yield late
    yield late_by_ahead
    yield skipped


def _collect_event_times(connection: sql.Connection) -> Iterator[Metric]:
    newest = GaugeMetricFamily(
        "moirae_stream_newest_timestamp_seconds",
        "Newest event time of a stream.",
        labels=["stream"],
    )
    lag = GaugeMetricFamily(
        "moirae_ingest_lag_seconds",
        "How far the newest event time of a stream is behind the clock; 0 if it is ahead.",
        labels=["stream"],
    )
    ahead = GaugeMetricFamily(
        "moirae_rows_ahead_seconds",
        "How far rows of a key were ahead of the clock within the last hour, at most.",
        labels=["stream"],
    )
    now = utc_now()
    keys_ahead = Catalog(connection).keys_ahead()
    for row in StreamGateway(connection).list_all():
        if row.newest is not None:
            newest.add_metric([row.name], row.newest.timestamp())
            lag.add_metric([row.name], max(0.0, (now - row.newest).total_seconds()))
        recent = [key.ahead for key in keys_ahead[row.name] if key.at > to_micros(now - _AHEAD_AGE)]
        ahead.add_metric([row.name], max(recent, default=0) / _MICROS_PER_SECOND)
    yield newest
    yield lag
    yield ahead


def _collect_unread_input(connection: sql.Connection, state: StateReport) -> Iterator[Metric]:
    unread = GaugeMetricFamily(
        "moirae_unread_input_seconds",
        "How long the oldest input of a stream waits to be archived.",
        labels=["stream"],
    )
    waits = {row["stream"]: row["waiting_seconds"] for row in state["unread_input"]}
    for row in StreamGateway(connection).list_all():
        unread.add_metric([row.name], waits.get(row.name, 0.0))
    yield unread


def _collect_topics(connection: sql.Connection) -> Iterator[Metric]:
    unreadable = GaugeMetricFamily(
        "moirae_topic_unreadable",
        "1 for a stream whose topic cannot be read, by reason.",
        labels=["stream", "reason"],
    )
    for error in SourceErrorGateway(connection).list_all():
        unreadable.add_metric([error.stream, error.kind], 1)
    yield unreadable
    lost = CounterMetricFamily(
        "moirae_lost_records",
        "Records of topics that were lost before they were read, as far as their number is known.",
        labels=["stream", "reason"],
    )
    unacknowledged = GaugeMetricFamily(
        "moirae_unacknowledged_losses",
        "Ranges of lost records that nobody has acknowledged.",
        labels=["stream", "reason"],
    )
    for count in LostRecordsGateway(connection).count_by_reason():
        lost.add_metric([count.stream, count.reason], count.records)
        unacknowledged.add_metric([count.stream, count.reason], count.open)
    yield lost
    yield unacknowledged


def _collect_incomplete_rules(deployments: Sequence[DeploymentRow]) -> Metric:
    since = GaugeMetricFamily(
        "moirae_rule_incomplete_since_timestamp_seconds",
        "Event time from which a rule in quarantine, or that failed, has not evaluated rows; "
        f"0: from the beginning. At most {_MAX_INCOMPLETE_RULES} rules.",
        labels=["rule", "state"],
    )
    incomplete = list_incomplete_rules([asdict(deployment) for deployment in deployments])
    for rule in incomplete[:_MAX_INCOMPLETE_RULES]:
        start = rule["since"]
        seconds = 0.0 if start is None else start.timestamp()
        since.add_metric([rule["rule"], rule["state"]], seconds)
    return since


def _collect_lost_verdicts(connection: sql.Connection) -> Iterator[Metric]:
    counts = LostVerdictGateway(connection).count_by_rule()
    by_rule = GaugeMetricFamily(
        "moirae_lost_verdicts",
        "Rows over which a rule has no verdict, as it exceeded its limits for them. At most "
        f"{_MAX_INCOMPLETE_RULES} rules, those with most of them.",
        labels=["rule"],
    )
    for count in counts[:_MAX_INCOMPLETE_RULES]:
        by_rule.add_metric([count.rule], count.rows)
    yield by_rule
    yield GaugeMetricFamily(
        "moirae_lost_verdicts_all_rules",
        "Rows over which any rule in use has no verdict.",
        sum(count.rows for count in counts),
    )


def _collect_counts(connection: sql.Connection) -> Iterator[Metric]:
    tasks = TaskGateway(connection)
    alerts = GaugeMetricFamily("moirae_alerts", "Alerts by state.", labels=["state"])
    for state, count in AlertGateway(connection).count_alerts().items():
        alerts.add_metric([state], count)
    yield alerts
    chunks = GaugeMetricFamily("moirae_chunks", "Chunks by state.", labels=["state"])
    chunk_states = Counter(row.state for row in ChunkGateway(connection).list_all())
    for state, count in chunk_states.items():
        chunks.add_metric([state], count)
    yield chunks
    recalls = GaugeMetricFamily("moirae_recalls", "Recalls by state.", labels=["state"])
    for state, count in tasks.count_by_state().items():
        recalls.add_metric([state], count)
    yield recalls
    queue = tasks.waiting()
    yield GaugeMetricFamily("moirae_recall_queue", "Interactive recalls that wait.", queue.waiting)
    yield GaugeMetricFamily(
        "moirae_recall_queue_oldest_seconds", "How long the oldest of them waits.", queue.longest
    )
    rules = GaugeMetricFamily("moirae_rules", "Deployed rules by state.", labels=["state"])
    deployments = DeploymentGateway(connection).list_active()
    for state, count in Counter(deployment.state for deployment in deployments).items():
        rules.add_metric([state], count)
    yield rules
    yield _collect_incomplete_rules(deployments)
    yield from _collect_lost_verdicts(connection)
    set_aside = GaugeMetricFamily(
        "moirae_set_aside",
        "Files, streams, relations, rules and topics that are set aside, as they break their reader.",
        labels=["kind"],
    )
    kinds = Counter(
        subject["kind"] for subject in list_set_aside(connection) if subject["is_set_aside"]
    )
    for kind in get_args(SubjectKind):
        set_aside.add_metric([kind], kinds[kind])
    yield set_aside
    held_rows = GaugeMetricFamily(
        "moirae_held_relation_rows",
        "Rows of the version of a relation that is held back; absent without one.",
        labels=["relation"],
    )
    for held_version in RelationGateway(connection).list_held():
        held_rows.add_metric([held_version.relation], held_version.rows)
    yield held_rows
