"""Detection and settling: active rules over new rows, and over slices of the archive."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, zip_longest
from operator import attrgetter, itemgetter

import pyarrow as pa

import sql
from archiver.ingest import ArchiveWriter, ClosedKeys, IngestResult
from archiver.periodic import Periodic, Timer
from archiver.time_range import ALL_TIME, TimeRange
from archiver.times import Micros, from_micros, micros_column
from moirae.alerts import AlertingRule, AlertStore, Event, EventRow, deduplicate, make_alerting_rule
from moirae.deployments import RuleRegistry
from moirae.evaluation import EvaluationResult, RowSource
from moirae.evaluation.plan import (
    ActiveRule,
    RuleCohort,
    RuleSlice,
    correctable_slices,
    due_slices,
    join_slices,
    open_slices,
)
from moirae.history import undecided_duration
from moirae.live.active_rules import ActiveRules
from moirae.live.alert_contexts import AlertContexts
from moirae.live.closed_keys import ClosedWindows
from moirae.live.evaluators import Evaluators
from moirae.live.event_time import get_watermarks
from moirae.live.flow_counts import FlowCounts
from moirae.live.flow_store import FlowStore
from moirae.live.silent_alerts import SilentAlerts
from recall.ledger import Ledger
from recall.requests import RecallEvent
from sql.alerts import AlertGateway
from sql.stages import RowRevisionGateway

# Stateless rules ("filters") may be settled late without loss: their events are detected at once.
_SETTLE_INTERVAL = 1.0  # seconds between settlings of stateless rules
_SAVE_INTERVAL = 1.0  # seconds between writes of the progress of rules that found nothing


class Detector:
    """Evaluates the active rules, on one Spark session and one database connection."""

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        connection: sql.Connection,
        active_rules: ActiveRules,
        evaluators: Evaluators,
        contexts: AlertContexts,
        silent_alerts: SilentAlerts,
    ) -> None:
        """`contexts`: tell which rows future contexts need."""
        self._rows = evaluators.rows
        self._guard = evaluators.guard
        self._evaluator = evaluators.rules
        self._contexts = contexts
        self._archive = archive
        self._connection = connection
        self._registry = RuleRegistry(connection)
        self._store = AlertStore(connection)
        self._ledger = Ledger(connection)
        self.silent_alerts = silent_alerts
        self._active_rules = active_rules
        self._closed_windows = ClosedWindows(archive)
        self._flow_store = FlowStore(connection)
        self._settle_timer = Timer(_SETTLE_INTERVAL)  # of stateless rules
        self._save_task = Periodic("save progress", _SAVE_INTERVAL, active_rules.save_progress)

    @property
    def active_rules(self) -> list[ActiveRule]:
        """Active rules, without quarantined rules."""
        return self._active_rules.rules

    def find_external_rule(self, name: str) -> ActiveRule | None:
        """A rule of posted alerts; None: it does not run."""
        return self._active_rules.find_external(name)

    @property
    def flows(self) -> FlowCounts:
        """What was processed since it was last stored."""
        return self._contexts.flows

    @property
    def reads_revisions(self) -> bool:
        """Whether active rules read streams of recalls or stages."""
        return bool(self._rows.revisions.streams)

    def _watermarks(self) -> dict[str, Micros | None]:
        """The watermarks of all streams; those of recalls and stages as last read."""
        return {**get_watermarks(self._archive), **self._rows.revisions.watermarks}

    def reload(self, now: datetime) -> None:
        """Load changed relations and rules; evaluate unsettled rows with the rules that started.

        `now`: the event time from which changed relations are valid.
        """
        self.detect_unsettled(self._active_rules.reload(now))

    def store_flows(self) -> None:
        """Store what streams, rules and contexts have processed since the last call, and the costs."""
        costs = self._evaluator.costs.take()
        stream_bytes = {name: rows.size_bytes for name, rows in self._archive.recent_rows.items()}
        flows = self.flows.take(costs, stream_bytes, self._evaluator.get_memory())
        self._flow_store.add(flows, costs)

    def on_rule_seconds(self, record: Callable[[Mapping[str, float]], None]) -> None:
        """Have the seconds of rules recorded in each evaluation."""
        self._evaluator.costs.on_seconds = record

    # Detection

    def detect_and_settle(self, ingested: IngestResult, include_filters: bool = False) -> None:
        """Evaluate new rows with the stateless rules, then settle what is due.

        `include_filters`: settle stateless rules too, even if no new row can be settled.
        """
        self._detect_in_samples(ingested)
        watermarks = self._watermarks()
        combined = self._find_combined_slices(ingested, watermarks)
        has_settleable = self._detect(ingested, watermarks, combined)
        self._settle(watermarks, include_filters or has_settleable or bool(combined), combined)
        self._detect_closed_keys(ingested.closed_keys)

    def _detect(
        self,
        ingested: IngestResult,
        watermarks: Mapping[str, Micros | None],
        combined: frozenset[RuleSlice],
    ) -> bool:
        """Evaluate new rows with the stateless rules; store provisional alerts.

        Rows before the horizon of every rule are not evaluated: they can be settled right away.
        Returns whether there were such rows. `combined`: slices whose rules are not evaluated.
        """
        combined_rules = set(chain.from_iterable(map(attrgetter("rules"), combined)))
        cohorts = []
        for cohort in self._active_rules.cohorts:
            is_combined = not combined_rules.isdisjoint(cohort.rules)
            reads_archive = cohort.shape.streams <= self._archive.tables.keys()
            if cohort.shape.is_stateless and reads_archive and not is_combined:
                cohorts.append(cohort)
        horizons = {cohort.shape: cohort.shape.horizon(watermarks) for cohort in cohorts}
        has_settleable = False
        new_rows: dict[str, RowSource] = {}
        for stream in self._archive.tables:
            shapes = [shape for shape in horizons if stream in shape.streams]
            if not shapes:
                continue
            earliest = min(_present(map(horizons.__getitem__, shapes)), default=None)
            table = ingested.on_time.get(stream)
            if table is not None:
                unsettled_rows = self._select_rows(stream, table, earliest)
                has_settleable = has_settleable or len(unsettled_rows) < len(table)
                if len(unsettled_rows):
                    new_rows[stream] = self._rows.find_rows(stream, unsettled_rows)
            files = ingested.files.get(stream, ())
            unsettled_files = files
            if earliest is not None:
                unsettled_files = [file for file in files if file.newest >= earliest]
                has_settleable = has_settleable or any(file.oldest < earliest for file in files)
            if unsettled_files:
                new_rows[stream] = self._rows.find_files(
                    stream, unsettled_files, TimeRange(earliest)
                )
        reading = [cohort for cohort in cohorts if cohort.shape.streams & new_rows.keys()]
        if reading:
            event_rows = self._evaluate_rows(reading, new_rows)
            detected: list[tuple[ActiveRule, Sequence[EventRow]]] = []
            for rule, rule_rows in event_rows:
                detected.append((rule, _rows_since(rule_rows, horizons[rule.shape])))
            self._record_detected(detected)
        return has_settleable

    def resume_recovered(self) -> None:
        """End the quarantine of rules that lost too many verdicts, and no longer do."""
        self._evaluator.losses.resume_recovered(self._active_rules.sampled_rules)

    def _detect_in_samples(self, ingested: IngestResult) -> None:
        """Evaluate one new row in many with the rules that lose too many verdicts."""
        rules_by_stream: dict[str, list[ActiveRule]] = {}
        for rule in self._active_rules.sampled_rules:
            if len(rule.shape.streams) == 1:
                (stream,) = rule.shape.streams
                rules_by_stream.setdefault(stream, []).append(rule)
        for stream, rules in rules_by_stream.items():
            table, files = ingested.on_time.get(stream), ingested.files.get(stream)
            if table is not None:
                source = self._rows.find_rows(stream, table)
            elif files:
                source = self._rows.find_files(stream, files, ALL_TIME)
            else:
                continue
            sample = self._evaluator.losses.sampler.select(stream, source)
            if not sample.count:
                continue
            for rule in rules:
                result = self._evaluator.evaluate_sample(rule, {stream: sample})
                if rule.shape.is_stateless:
                    self._record_detected(result.event_rows)

    def _find_combined_slices(
        self, ingested: IngestResult, watermarks: Mapping[str, Micros | None]
    ) -> frozenset[RuleSlice]:
        """The due slices of stateless rules that are evaluated together with all later rows.

        The new rows of their stream are in files that executors wrote, and no other file has later
        rows: one job evaluates what is to be settled and what is to be detected.
        """
        if not ingested.files:
            return frozenset()
        new_paths: set[str] = set()
        for files in ingested.files.values():
            new_paths.update(file.path for file in files)
        slices: set[RuleSlice] = set()
        for rule_slice in due_slices(self._active_rules.cohorts, watermarks):
            if not rule_slice.is_stateless or len(rule_slice.streams) != 1:
                continue
            (stream,) = rule_slice.streams
            if stream in ingested.files:
                later_rows = TimeRange(rule_slice.range.end)
                later_files = self._archive.tables[stream].data_files(later_rows)
                if all(file.path in new_paths or file.is_foreign for file in later_files):
                    slices.add(rule_slice)
        return frozenset(slices)

    def _select_rows(self, stream: str, rows: pa.Table, earliest: Micros | None) -> pa.Table:
        """The rows from an event time on; None: all."""
        if earliest is None:
            return rows
        ts = micros_column(rows, self._archive.tables[stream].schema.time)
        return rows.filter(pa.array(ts >= earliest))

    def _evaluate_rows(
        self, cohorts: Sequence[RuleCohort], new_rows: Mapping[str, RowSource]
    ) -> Sequence[tuple[ActiveRule, Sequence[EventRow]]]:
        sources = dict(new_rows)
        for stream in frozenset().union(*map(attrgetter("shape.streams"), cohorts)):
            if stream not in sources:
                sources[stream] = self._rows.find_rows(stream, None)
        rules = list(chain.from_iterable(map(attrgetter("rules"), cohorts)))
        return self._evaluator.evaluate_rows(rules, sources).event_rows

    def detect_unsettled(self, rules: Sequence[ActiveRule]) -> None:
        """Evaluate archived rows that are not settled yet, with the stateless ones of some rules.

        After a restart these rows may not have been evaluated; a rule that was just started has not
        seen them.
        """
        selected = set(rules)
        groups: dict[Micros | None, list[Sequence[ActiveRule]]] = {}
        for cohort in self._active_rules.cohorts:
            members = cohort.select(selected.__contains__).rules
            if not members or not cohort.shape.is_stateless or members[0].reads_revisions:
                continue
            newest = [self._archive.progress[name].newest for name in cohort.shape.streams]
            if any(time is not None for time in newest):
                groups.setdefault(cohort.settled_to, []).append(members)
        for rule_slice in open_slices(self._active_rules.cohorts, self._watermarks()):
            early_rules = tuple(filter(selected.__contains__, rule_slice.rules))
            if early_rules:
                rule_slice = replace(rule_slice, rules=early_rules)
                self._record_detected(self._evaluator.evaluate_slice(rule_slice).event_rows)
        for settled_to, rule_groups in groups.items():
            rule_slice = RuleSlice(
                rules=tuple(chain.from_iterable(rule_groups)),
                range=TimeRange(settled_to),
                input_range=TimeRange(settled_to),
            )
            self._record_detected(self._evaluator.evaluate_slice(rule_slice).event_rows)
        if selected:
            self._detect_closed_keys(self._archive.closed_keys)

    def _detect_closed_keys(self, closed_keys: Mapping[str, ClosedKeys]) -> None:
        """Evaluate the windows that closed keys complete, by stream; their settling follows."""
        if not closed_keys:
            return
        slices = self._closed_windows.find_slices(
            self._active_rules.cohorts, self._watermarks(), closed_keys
        )
        for rule_slice in slices:
            detected: list[tuple[ActiveRule, Sequence[EventRow]]] = []
            for rule, rows in self._evaluator.evaluate_slice(rule_slice).event_rows:
                selected = self._closed_windows.select_rows(rule, rows, closed_keys)
                detected.append((rule, selected))
            self._record_detected(detected)

    def detect_early(self, changed: frozenset[str]) -> None:
        """Evaluate the open windows of early rules that read the `changed` streams.

        What a window no longer yields stays until the window closes, so that alerts do not flap.
        Rules over streams of recalls and stages are corrected at once.
        """
        cohorts = [
            cohort for cohort in self._active_rules.cohorts if cohort.shape.streams & changed
        ]
        for rule_slice in open_slices(cohorts, self._watermarks()):
            self._record_detected(self._evaluator.evaluate_slice(rule_slice).event_rows)
        for rule_slice in correctable_slices(cohorts):
            self._correct_detected(rule_slice)

    def detect_revisions(self) -> bool:
        """Evaluate the rules over streams of recalls and stages that have changed.

        Returns whether there were any.
        """
        changed = self._rows.revisions.refresh()
        if changed:
            self.detect_early(changed)
        return bool(changed)

    def detect_alerts(self) -> bool:
        """Evaluate the rules over alerts and stored events that have changed, in all strata.

        Returns whether there were any.
        """
        has_changed = False
        while self._rows.revisions.has_alerts:
            changed = self._rows.revisions.refresh_alerts()
            if not changed:
                break
            self.detect_early(changed)
            has_changed = True
        return has_changed

    def _correct_detected(self, rule_slice: RuleSlice) -> None:
        """Replace the detected events of rules by those that a slice without end has now.

        The recalls of events that it no longer has continue: the next revision may bring them back.
        """
        result = self._evaluator.evaluate_slice(rule_slice)
        rows_by_rule = {rule.name: rows for rule, rows in result.event_rows}
        with self._connection.transaction():
            for rule in rule_slice.rules:
                if rule.name not in result.failed:
                    events = self._to_events(rule, rows_by_rule.get(rule.name, []))
                    self._store.replace_detected(_alerting_rule(rule), events)

    def _record_detected(self, event_rows: Sequence[tuple[ActiveRule, Sequence[EventRow]]]) -> None:
        """Store detected events and their provisional alerts in one transaction."""
        if not any(map(itemgetter(1), event_rows)):
            return
        with self._connection.transaction():
            for rule, rows in event_rows:
                if rows:
                    events = self._to_events(rule, rows)
                    self._store.record_detected(_alerting_rule(rule), events)

    # Settling

    def settle(self, include_filters: bool = False) -> bool:
        """Settle what is due; returns whether anything was.

        `include_filters`: settle stateless rules too, however recently they were settled.
        """
        return self._settle(self._watermarks(), include_filters, combined=frozenset())

    def _settle(
        self,
        watermarks: Mapping[str, Micros | None],
        include_filters: bool,
        combined: frozenset[RuleSlice],
    ) -> bool:
        """See `settle`. `combined`: slices whose later rows are detected now."""
        now = time.monotonic()
        include_filters = include_filters or self._settle_timer.is_due(now)
        cohorts = self._active_rules.cohorts
        if include_filters:
            self._settle_timer.restart(now)
        else:
            cohorts = [cohort for cohort in cohorts if not cohort.shape.is_stateless]
        # Events of stateless rules are detected first, as where they are not combined.
        due = due_slices(cohorts, watermarks)
        assert combined <= set(due), "the rows after a slice would not be detected"
        slices = sorted(due, key=attrgetter("is_stateless"), reverse=True)
        evaluated = {
            rule_slice: rule_slice.without_end() if rule_slice in combined else rule_slice
            for rule_slice in slices
        }
        for rule_slice, next_slice in zip_longest(slices, slices[1:]):
            horizon = rule_slice.range.end
            assert horizon is not None
            result = self._evaluator.evaluate_slice(evaluated[rule_slice])
            if next_slice is not None:
                self._evaluator.start_slice(evaluated[next_slice])  # runs while this one is stored
            if rule_slice in combined:
                result = self._record_later_rows(result, horizon)
            self._store_settled(rule_slice, result, silent_until=horizon)
        if slices and include_filters:
            self._evict_rows()
        self._save_task.run_if_due(now)
        return bool(slices)

    def _record_later_rows(self, result: EvaluationResult, horizon: Micros) -> EvaluationResult:
        """Store events at or after the horizon as detected; returns the result without them."""
        earlier: list[tuple[ActiveRule, list[EventRow]]] = []
        later: list[tuple[ActiveRule, Sequence[EventRow]]] = []
        for rule, rows in result.event_rows:
            later.append((rule, _rows_since(rows, horizon)))
            rows_before = [row for row in rows if row.ts < horizon]
            if rows_before:
                earlier.append((rule, rows_before))
        self._record_detected(later)
        return replace(result, event_rows=earlier)

    def _evict_rows(self) -> None:
        """Drop the rows in memory that neither a rule nor a context will read again."""
        recalling = [rule for rule in self.active_rules if rule.has_questions]
        context_needs = self._contexts.oldest_needed(recalling, get_watermarks(self._archive))
        for stream, recent_rows in self._archive.recent_rows.items():
            oldest = self._oldest_needed(stream)
            if oldest is not None:
                recent_rows.drop_before(min(oldest, context_needs.get(stream, oldest)))

    def _oldest_needed(self, stream: str) -> Micros | None:
        """Event time of the oldest row of a stream that rules read; None: no row may be dropped."""
        needs: list[Micros] = []
        for cohort in self._active_rules.cohorts:
            if stream not in cohort.shape.streams:
                continue
            if cohort.settled_to is None:
                return None
            needs.append(cohort.settled_to - cohort.shape.reach)
        return min(needs, default=self._archive.watermark(stream) or 0)

    # The end of the input

    def reach(self) -> Micros:
        """Event time from the newest row until all windows and alerts have ended."""
        rules = {rule.name: rule for rule in self.active_rules}
        return max((self._reach_of(rule, rules) for rule in rules.values()), default=0)

    def _reach_of(self, rule: ActiveRule, rules: Mapping[str, ActiveRule]) -> Micros:
        """The reach of a rule; it begins where the alerts that it reads have ended."""
        producers: set[str] = set()
        for stream in rule.definition.rule.revision_streams:
            if not stream.is_of_recall:
                producers.update(stream.producers)
        before = max(
            (self._reach_of(rules[name], rules) for name in producers & rules.keys()), default=0
        )
        return before + _rule_reach(rule) + self._contexts.reach(rule)

    def settle_to_end(self, after_newest: Micros, end: Micros) -> None:
        """Settle everything: no row at or after `after_newest` will come; time advances to `end`.

        Rules of absence are settled up to the newest row only: silence after the end of the input
        is no absence. Times are event time.
        """
        end_marks: dict[str, Micros | None] = dict.fromkeys(self._archive.tables, end)
        row_marks: dict[str, Micros | None] = dict.fromkeys(self._archive.tables, after_newest)
        parts: list[tuple[Sequence[ActiveRule], TimeRange]] = []
        for cohort in self._active_rules.cohorts:
            if cohort.shape.streams & self._rows.revisions.streams.keys():
                continue  # see `settle_revisions_to_end`
            for rule in cohort.rules:
                marks = row_marks if rule.is_absence else end_marks
                parts.append(((rule,), _range_to_end(rule, cohort.settled_to, marks)))
        for rule_slice in join_slices(parts):
            self._settle_slice_to_end(rule_slice, end, after_newest)
        self._active_rules.save_progress()

    def settle_revisions_to_end(self, end: Micros) -> int:
        """Settle the rules over streams of recalls and stages whose events have all ended.

        To be called after `settle_to_end`; returns the number of rules that are left.
        """
        self.detect_revisions()
        revisions = self._rows.revisions
        end_marks: dict[str, Micros | None] = dict.fromkeys(self._archive.tables, end)
        open_rules = {
            rule.name: (rule, cohort.settled_to)
            for cohort in self._active_rules.cohorts
            for rule in cohort.rules
            if rule.reads_revisions and not self._is_settled_to_end(rule, cohort.settled_to, end)
        }
        settled_rules = 0
        for rule, settled_to in open_rules.values():
            streams = [
                revisions.streams[name] for name in rule.shape.streams & revisions.streams.keys()
            ]
            producers = set(chain.from_iterable(stream.producers for stream in streams))
            recalling = sorted(stream.rule for stream in streams if stream.is_of_recall)
            if producers.isdisjoint(open_rules) and not RowRevisionGateway(
                self._connection
            ).count_open_events(recalling):
                marks = {**end_marks, **dict.fromkeys((stream.table for stream in streams), end)}
                parts = [((rule,), _range_to_end(rule, settled_to, marks))]
                (rule_slice,) = join_slices(parts)
                self._settle_slice_to_end(rule_slice, end)
                settled_rules += 1
        self._active_rules.save_progress()
        return len(open_rules) - settled_rules

    def _is_settled_to_end(self, rule: ActiveRule, settled_to: Micros | None, end: Micros) -> bool:
        return settled_to is not None and settled_to >= end - rule.shape.lag

    def _settle_slice_to_end(
        self, rule_slice: RuleSlice, end: Micros, input_end: Micros | None = None
    ) -> None:
        """Settle rules whose streams end. `input_end`: of their rows, if they have."""
        horizon = rule_slice.range.end
        assert horizon is not None
        result = self._evaluator.evaluate_slice(rule_slice)
        self._store_settled(rule_slice, result, silent_until=max(horizon, end), input_end=input_end)

    def _store_settled(
        self,
        rule_slice: RuleSlice,
        result: EvaluationResult,
        silent_until: Micros,
        input_end: Micros | None = None,
    ) -> None:
        """Settle the rules of a slice up to its end in one transaction.

        `silent_until`: the event time before which no further event will come; at least that end.
        `input_end`: no row at or after it will come; None: others will.
        Only rules with events or with alerts that end are written to the database; the progress of
        the others is stored at intervals.
        """
        horizon = rule_slice.range.end
        assert horizon is not None
        rows_by_rule = {rule.name: rows for rule, rows in result.event_rows}
        self._archive.fence()
        # A rule may have been quarantined for its detected events.
        failed = result.failed | self._guard.quarantined
        versions: dict[str, str] = {}
        event_counts: dict[str, int] = {}
        with self._connection.transaction():
            open_since = AlertGateway(self._connection).list_unsettled_rules(from_micros(horizon))
            for rule in rule_slice.rules:
                name = rule.name
                if name in failed:
                    continue
                if name not in rows_by_rule:
                    if name not in open_since:
                        continue
                    if not _has_ending_alert(rule, open_since[name], silent_until):
                        continue
                events = self._to_events(rule, rows_by_rule.get(name, []))
                event_counts[name] = len(events)
                decide_ends = partial(self.silent_alerts.decide, rule, horizon, input_end)
                dropped = self._store.settle(
                    _alerting_rule(rule), events, horizon, silent_until, decide_ends
                )
                if rule.is_early:
                    self._ledger.settle_events(
                        name, rule.version, _to_recall_events(events), dropped
                    )
                versions[name] = rule.version
            if versions:
                self._registry.record_settled(versions, horizon, self._guard.rules_over_limit)
        self.flows.add_events(event_counts)
        settled_names = set(map(attrgetter("name"), rule_slice.rules)) - failed
        self._active_rules.mark_settled(settled_names, horizon, stored=versions.keys())

    def _to_events(self, rule: ActiveRule, rows: Sequence[EventRow]) -> list[Event]:
        definition = rule.definition
        limited_rows = self._guard.limit_event_rows(rule, rows)
        return deduplicate(rule.name, definition.id, definition.key, limited_rows)


def _range_to_end(
    rule: ActiveRule, settled_to: Micros | None, marks: Mapping[str, Micros | None]
) -> TimeRange:
    """What is left of a rule whose streams end at `marks`."""
    horizon = rule.shape.horizon(marks)
    assert horizon is not None
    return TimeRange(settled_to, horizon if settled_to is None else max(horizon, settled_to))


def _present(times: Iterable[Micros | None]) -> Iterator[Micros]:
    """The times without None."""
    return (time for time in times if time is not None)


def _rows_since(rows: Sequence[EventRow], low: Micros | None) -> Sequence[EventRow]:
    """The rows at or after a time; None: all."""
    if low is None:
        return rows
    return [row for row in rows if row.ts >= low]


def _alerting_rule(rule: ActiveRule) -> AlertingRule:
    return make_alerting_rule(rule.definition)


def _to_recall_events(events: Iterable[Event]) -> list[RecallEvent]:
    return [RecallEvent(event.eid, event.ts, event.key, event.attributes) for event in events]


def _has_ending_alert(rule: ActiveRule, last_event: Micros | None, silent_until: Micros) -> bool:
    """Whether an alert ends before `silent_until` unless another event comes.

    `last_event`: as returned by `AlertGateway.list_unsettled_rules`.
    """
    if last_event is None:
        return True
    return last_event + rule.keep_firing_for <= silent_until


def _rule_reach(rule: ActiveRule) -> Micros:
    """Event time from the newest row until the rule has ended.

    Includes the time to decide what began before the rule did (see `moirae.history.plan`).
    """
    return (
        rule.shape.reach
        + abs(rule.shape.lag)
        + 2 * undecided_duration(rule.definition)
        + max(rule.delay, rule.definition.stage_delay)
    )
