"""How alerts end that have no further events: whether rows with the values of their key still come."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from archiver.ingest import ArchiveWriter
from archiver.time_range import TimeRange
from archiver.times import Micros, micros_column
from moirae.alerts import AlertEnd, EndingAlert, SilenceReason, decide_end
from moirae.evaluation import LiveStreamRows, to_json_values
from moirae.evaluation.plan import ActiveRule, RuleVersion
from moirae.rules import KeySource, find_key_sources

# Rows are looked for from the end of a time backwards: those in memory are there. Each step is some
# times longer than the one before.
_FIRST_STEP = 2_000_000  # microseconds
_STEP_FACTOR = 4
# Rows of files that are read to tell why alerts end that nothing holds.
_MAX_READ_ROWS = 1_000_000
_MAX_SEARCHED = 10_000  # held alerts whose searched time is remembered

_Key = tuple[Any, ...]


class SilentAlerts:
    """Decides the ends of alerts, by the rows of the archive."""

    def __init__(self, rows: LiveStreamRows, archive: ArchiveWriter) -> None:
        self._rows = rows
        self._archive = archive
        self.finds_reasons = True
        """Whether to look why alerts end whose rule does not hold them."""
        self._sources: dict[RuleVersion, Sequence[KeySource]] = {}
        self._searched: dict[UUID, Micros] = {}
        """Up to which time no row of a held alert came, by first event."""

    def decide(
        self,
        rule: ActiveRule,
        horizon: Micros,
        input_end: Micros | None,
        alerts: Sequence[EndingAlert],
    ) -> Sequence[AlertEnd]:
        """When alerts end, and why.

        `horizon`: the event time up to which the rule is settled. `input_end`: no row at or after it
        will come; None: others will. An alert that was to end after it ends: its data may not have
        vanished, the input is over.
        """
        is_held = rule.spec.on_silence == "hold"
        if rule.is_absence and not is_held:
            # That no rows came was the alert.
            reason: SilenceReason | None = "ended" if self.finds_reasons else None
            return [AlertEnd(alert.ends, reason) for alert in alerts]
        sources = self._find_sources(rule) if is_held or self.finds_reasons else ()
        # The last event may be made of rows up to `lag` after it.
        lag = max(rule.shape.lag, 0)
        undecided = [
            alert
            for alert in alerts
            if sources
            and (is_held or alert.last < alert.ends)
            and (input_end is None or alert.ends + lag < input_end)
        ]
        if not is_held and not self._can_read(sources, undecided, lag):
            undecided = []
        present = self._find_present(sources, undecided, lag)
        silent = [alert for alert in undecided if alert.eid not in present]
        returns: Mapping[UUID, Micros] = {}
        if is_held:
            known_until = horizon + lag if input_end is None else input_end
            returns = self._find_returns(sources, silent, lag, known_until)
        silent_events = {alert.eid for alert in silent}
        ends: list[AlertEnd] = []
        for alert in alerts:
            if alert.eid in silent_events:
                ends.append(decide_end(alert, False, returns.get(alert.eid), is_held))
            else:
                ends.append(AlertEnd(alert.ends, "ended" if alert.eid in present else None))
        return ends

    def _find_sources(self, rule: ActiveRule) -> Sequence[KeySource]:
        if rule.rule_version not in self._sources:
            columns = {
                name: table.schema.query_columns for name, table in self._archive.tables.items()
            }
            self._sources[rule.rule_version] = find_key_sources(rule.definition, columns)
        return self._sources[rule.rule_version]

    def _can_read(
        self, sources: Sequence[KeySource], alerts: Sequence[EndingAlert], lag: Micros
    ) -> bool:
        """Whether rows until the end of alerts are in memory, or few: live work does not wait."""
        if not alerts:
            return True
        start = min(alert.last for alert in alerts)
        window = TimeRange(start, max(alert.ends for alert in alerts) + lag + 1)
        for source in sources:
            if self._rows.count_in_memory(source.stream, window) is None:
                if not self._rows.reads_files:
                    return False
                if self._rows.estimate_count(source.stream, window) > _MAX_READ_ROWS:
                    return False
        return True

    def _find_present(
        self, sources: Sequence[KeySource], alerts: Sequence[EndingAlert], lag: Micros
    ) -> set[UUID]:
        """The alerts, by first event, with a row from their last event to their end."""
        present: set[UUID] = set()
        step = _FIRST_STEP
        remaining = list(alerts)
        while remaining:
            windows: dict[UUID, TimeRange] = {}
            for alert in remaining:
                end = alert.ends + lag + 1
                windows[alert.eid] = TimeRange(max(alert.last + lag + 1, end - step), end)
            present |= self._find_first_rows(sources, remaining, windows).keys()
            remaining = [
                alert
                for alert in remaining
                if alert.eid not in present and alert.ends - step > alert.last
            ]
            step *= _STEP_FACTOR
        return present

    def _find_returns(
        self,
        sources: Sequence[KeySource],
        alerts: Sequence[EndingAlert],
        lag: Micros,
        known_until: Micros,
    ) -> Mapping[UUID, Micros]:
        """The first rows of alerts after their end, by first event."""
        windows: dict[UUID, TimeRange] = {}
        for alert in alerts:
            start = max(alert.ends + lag + 1, self._searched.get(alert.eid, alert.ends))
            windows[alert.eid] = TimeRange(start, known_until)
        returns = self._find_first_rows(sources, alerts, windows)
        for alert in alerts:
            self._searched.pop(alert.eid, None)
            if alert.eid not in returns:
                self._searched[alert.eid] = known_until
        while len(self._searched) > _MAX_SEARCHED:
            self._searched.pop(next(iter(self._searched)))
        return returns

    def _find_first_rows(
        self,
        sources: Sequence[KeySource],
        alerts: Sequence[EndingAlert],
        windows: Mapping[UUID, TimeRange],
    ) -> dict[UUID, Micros]:
        """The time of the first row with its key in the window of each alert that has one."""
        alerts = [alert for alert in alerts if not windows[alert.eid].is_empty]
        first: dict[UUID, Micros] = {}
        if not alerts:
            return first
        for source in sources:
            by_key: dict[_Key, list[EndingAlert]] = {}
            for alert in alerts:
                key = tuple(alert.key.get(name) for name in source.columns)
                by_key.setdefault(key, []).append(alert)
            for key, ts in self._read(source, by_key.keys(), list(windows.values())):
                for alert in by_key.get(key, ()):
                    if windows[alert.eid].contains(ts):
                        first[alert.eid] = min(ts, first.get(alert.eid, ts))
        return first

    def _read(
        self, source: KeySource, keys: Iterable[_Key], windows: Sequence[TimeRange]
    ) -> Iterable[tuple[_Key, Micros]]:
        """Keys and times of the rows of a stream in some windows, perhaps of other keys, too."""
        schema = self._archive.tables[source.stream].schema
        allowed: dict[str, Sequence[Any]] = {}
        for index, column in enumerate(source.columns.values()):
            values = list({key[index] for key in keys})
            if schema.query_columns[column] == "string":
                allowed[column] = values
                break
        rows = self._rows.read_near(source.stream, windows, allowed)
        if rows is None:
            rows = self._rows.rows_near(source.stream, windows, allowed).toArrow()
        times = micros_column(rows, schema.time).tolist()
        if not source.columns:
            return [((), ts) for ts in times]
        columns = [
            to_json_values(schema.query_columns[name], rows[name])
            for name in source.columns.values()
        ]
        return zip(zip(*columns, strict=True), times, strict=True)
