"""Windows of keys for which a source has closed event time, and keys that are missed since then.

Such windows need not wait for the watermark of their stream. Rows of the key that come later are
late, so what is detected here is what the watermark settles.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archiver.ingest import ArchiveWriter, ClosedKeys
from archiver.times import Micros
from moirae.alerts import EventRow
from moirae.evaluation.plan import ActiveRule, RuleCohort, RuleSlice, RuleVersion, due_slices
from moirae.rules import KeySource, find_closing_columns


class ClosedWindows:
    """Finds what rules can decide of closed keys."""

    def __init__(self, archive: ArchiveWriter) -> None:
        self._archive = archive
        self._sources: dict[RuleVersion, KeySource | None] = {}

    def find_slices(
        self,
        cohorts: Iterable[RuleCohort],
        watermarks: Mapping[str, Micros | None],
        closed_keys: Mapping[str, ClosedKeys],
    ) -> list[RuleSlice]:
        """The slices of rules with windows that closed keys complete; `closed_keys`: by stream."""
        slices: list[RuleSlice] = []
        for stream, closed in closed_keys.items():
            reading: list[RuleCohort] = []
            for cohort in cohorts:
                if not cohort.shape.is_stateless and cohort.shape.streams == {stream}:
                    selected = cohort.select(self._has_source)
                    if selected.rules:
                        reading.append(selected)
            if reading:
                marks = {**watermarks, stream: max(closed.values())}
                slices += due_slices(reading, marks)
        return slices

    def _has_source(self, rule: ActiveRule) -> bool:
        return self._find_source(rule) is not None

    def _find_source(self, rule: ActiveRule) -> KeySource | None:
        if rule.rule_version not in self._sources:
            schemas = {name: table.schema for name, table in self._archive.tables.items()}
            self._sources[rule.rule_version] = find_closing_columns(
                rule.definition,
                {name: schema.query_columns for name, schema in schemas.items()},
                {name: schema.key for name, schema in schemas.items()},
            )
        return self._sources[rule.rule_version]

    def select_rows(
        self, rule: ActiveRule, rows: Sequence[EventRow], closed_keys: Mapping[str, ClosedKeys]
    ) -> list[EventRow]:
        """The event rows that closed keys complete."""
        source = self._find_source(rule)
        assert source is not None
        closed = closed_keys[source.stream]
        selected: list[EventRow] = []
        for row in rows:
            key = tuple(_as_text(row.attributes.get(name)) for name in source.columns)
            end = closed.get(key)
            if end is not None and row.ts < end - rule.shape.lag:
                selected.append(row)
        return selected


def _as_text(value: Any) -> str | None:
    """A value of an event as the text of a key column; numbers with a fraction have no equal text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
