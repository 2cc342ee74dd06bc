"""Which rules are due over which slice of event time. No I/O.

A rule is settled up to an event time: no event before it is missing, and none will change. Rules
with the same shape that are settled up to the same time form a cohort. When the watermarks of its
streams advance, a cohort becomes due over a slice of event time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from sqlglot import exp

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import EventRow
from moirae.config import Settings
from moirae.rules import (
    AlertSpec,
    Definition,
    add_expected_keys,
    build_event_sql,
    build_event_tables,
    build_rule_tables,
    build_watched_rows_sql,
    infer_event_shape,
)
from recall.query import PhysicalTables, Shape, Tables, bind_query

# Sets of rules about which something is known; those of replaced rules are forgotten in time.
_MAX_RULE_SETS = 64


class RuleVersion(NamedTuple):
    """The name of a rule and its version."""

    rule: str
    version: str


@dataclass(frozen=True, eq=False)
class ActiveRule:
    """A rule in use: its definition, the tables it may name, its shape. Compared by identity.

    `tables`: of queries about its events; its event query may read streams of recalls too.
    Properties without a docstring are those of the definition.
    """

    definition: Definition
    tables: Tables
    shape: Shape

    @classmethod
    def create(
        cls, definition: Definition, time_columns: Mapping[str, str], relations: frozenset[str]
    ) -> "ActiveRule":
        """A rule over the streams and relations of a workspace.

        `time_columns`: by declared stream. Raises `recall.query.Unsupported`.
        """
        rule = definition.rule
        event_tables = build_event_tables(rule, time_columns, relations)
        tables = event_tables
        if definition.reads_revisions:
            tables = build_rule_tables(rule, time_columns, relations)
        return cls(definition, tables, infer_event_shape(rule, event_tables))

    @classmethod
    def of_workspace(cls, definition: Definition, settings: Settings) -> "ActiveRule":
        """See `create`."""
        time_columns = {name: stream.time for name, stream in settings.streams.items()}
        return cls.create(definition, time_columns, frozenset(settings.relations))

    @cached_property
    def name(self) -> str:
        return self.definition.name

    @property
    def version(self) -> str:
        return self.definition.version

    @cached_property
    def rule_version(self) -> RuleVersion:
        """Name and version."""
        return RuleVersion(self.name, self.version)

    @property
    def types(self) -> Mapping[str, str]:
        return self.definition.types

    @property
    def columns(self) -> tuple[str, ...]:
        return self.definition.columns

    @property
    def spec(self) -> AlertSpec:
        return self.definition.spec

    @property
    def is_absence(self) -> bool:
        return self.definition.is_absence

    @cached_property
    def is_early(self) -> bool:
        return self.definition.is_early

    @cached_property
    def reads_revisions(self) -> bool:
        return self.definition.reads_revisions

    @property
    def keep_firing_for(self) -> Micros:
        return self.definition.keep_firing_for

    @property
    def delay(self) -> Micros:
        return self.definition.delay

    @property
    def recalls_every_event(self) -> bool:
        return self.definition.recalls_every_event

    @property
    def has_corpus_of_events(self) -> bool:
        return self.definition.has_corpus_of_events

    @property
    def compares_every_event(self) -> bool:
        return self.definition.compares_every_event

    @cached_property
    def has_questions(self) -> bool:
        return self.definition.has_questions

    @property
    def event_limit(self) -> int | None:
        return self.definition.event_limit

    def bind_event_query(self) -> exp.Query:
        """The event query over the views of the evaluation, see `input_view`."""
        rule = self.definition.rule
        tables = self.tables
        if self.reads_revisions:
            tables = build_event_tables(rule, tables.streams, tables.relations)
        views = {name: input_view(name) for name in tables.streams}
        for name in tables.relations:
            views[name] = relation_view(name)
        physical = PhysicalTables(views)
        query = bind_query(build_event_sql(rule, tables), tables, physical)
        relation = rule.spec.expected
        if relation is None:
            return query
        rows = bind_query(build_watched_rows_sql(rule, tables), tables, physical)
        bounds = [bounds_view(stream) for stream in sorted(self.shape.streams)]
        return add_expected_keys(rule, query, rows, views[relation.lower()], bounds)


def input_view(stream: str) -> str:
    """The table or view that holds the rows of a stream while rules are evaluated."""
    return f"in_{stream}"


def bounds_view(stream: str) -> str:
    """The view of the event time of a stream's first row and of the bounds of the evaluation."""
    return f"bounds_{stream}"


def relation_view(relation: str) -> str:
    """The table or view that holds all row versions of a relation."""
    return f"relation_{relation}"


class SettledRules(NamedTuple):
    """Rules of one shape, and the event time up to which they are settled; None: not at all."""

    rules: Sequence[ActiveRule]
    settled_to: Micros | None


@dataclass(frozen=True)
class RuleCohort:
    """Rules of one shape that are settled up to the same event time.

    Microseconds; None: not at all. Decisions are made per cohort, so that a thousand rules cost a
    batch hardly more than a single one.
    """

    shape: Shape
    settled_to: Micros | None
    rules: tuple[ActiveRule, ...]

    def select(self, predicate: Callable[[ActiveRule], bool]) -> "RuleCohort":
        """The cohort reduced to the rules that satisfy a predicate."""
        rules = tuple(filter(predicate, self.rules))
        if len(rules) == len(self.rules):
            return self
        return replace(self, rules=rules)


def build_cohorts(groups: Iterable[SettledRules]) -> list[RuleCohort]:
    """Merge groups of rules into as few cohorts as possible. Empty groups are ignored."""
    groups_by_key: dict[tuple[Shape, int | None], list[Sequence[ActiveRule]]] = {}
    for rules, settled_to in groups:
        if rules:
            groups_by_key.setdefault((rules[0].shape, settled_to), []).append(rules)
    cohorts: list[RuleCohort] = []
    for (shape, settled_to), rule_groups in groups_by_key.items():
        cohorts.append(RuleCohort(shape, settled_to, _concatenate(rule_groups)))
    return cohorts


def advance_cohorts(
    cohorts: Iterable[RuleCohort], rule_names: Collection[str], settled_to: Micros
) -> list[RuleCohort]:
    """The cohorts after some of their rules have been settled up to `settled_to`."""
    groups: list[SettledRules] = []
    for cohort in cohorts:
        settled = cohort.select(lambda rule: rule.name in rule_names).rules
        groups.append(SettledRules(settled, settled_to))
        if len(settled) < len(cohort.rules):
            unsettled = cohort.select(lambda rule: rule.name not in rule_names).rules
            groups.append(SettledRules(unsettled, cohort.settled_to))
    return build_cohorts(groups)


def _concatenate(rule_groups: Sequence[Sequence[ActiveRule]]) -> tuple[ActiveRule, ...]:
    if len(rule_groups) == 1:
        return tuple(rule_groups[0])  # the same object for a tuple: most cohorts do not change
    return tuple(chain.from_iterable(rule_groups))


@dataclass(frozen=True)
class RuleSlice:
    """Rules that are evaluated together for events with ts in `range`.

    Their input are rows with event times in `input_range`.
    """

    rules: tuple[ActiveRule, ...]
    range: TimeRange
    input_range: TimeRange

    @property
    def streams(self) -> frozenset[str]:
        """The streams that the rules read."""
        return frozenset(chain.from_iterable(shape.streams for shape in _shapes_of(self.rules)))

    @property
    def is_stateless(self) -> bool:
        """Whether each of the rules evaluates each row alone."""
        return all(shape.is_stateless for shape in _shapes_of(self.rules))

    def without_end(self) -> "RuleSlice":
        """The slice with all later events."""
        return replace(
            self,
            range=TimeRange(self.range.start),
            input_range=TimeRange(self.input_range.start),
        )

    def select_event_rows(self, event_rows: Sequence[EventRow]) -> list[EventRow]:
        """The event rows with ts in `range`."""
        return [row for row in event_rows if self.range.contains(row.ts)]


# A batch asks the same of the same rules: a thousand of them are looked through once.


@lru_cache(_MAX_RULE_SETS)
def _shapes_of(rules: tuple[ActiveRule, ...]) -> frozenset[Shape]:
    return frozenset(rule.shape for rule in rules)


@lru_cache(_MAX_RULE_SETS)
def _early_rules_of(rules: tuple[ActiveRule, ...]) -> tuple[ActiveRule, ...]:
    return tuple(rule for rule in rules if rule.is_early and not rule.reads_revisions)


@lru_cache(_MAX_RULE_SETS)
def _correctable_rules_of(rules: tuple[ActiveRule, ...]) -> tuple[ActiveRule, ...]:
    return tuple(rule for rule in rules if rule.reads_revisions)


def open_slices(
    cohorts: Iterable[RuleCohort], watermarks: Mapping[str, Micros | None]
) -> list[RuleSlice]:
    """What rules that are evaluated early read of their open windows, at these watermarks."""
    slices: list[RuleSlice] = []
    for cohort in cohorts:
        early_rules = _early_rules_of(cohort.rules)
        start = cohort.settled_to
        if start is None:
            start = cohort.shape.horizon(watermarks)
        if early_rules and start is not None:
            input_range = TimeRange(start - cohort.shape.reach, None)
            slices.append(RuleSlice(early_rules, TimeRange(start, None), input_range))
    return slices


def correctable_slices(cohorts: Iterable[RuleCohort]) -> list[RuleSlice]:
    """All that is not settled of rules that read streams of recalls and stages."""
    slices: list[RuleSlice] = []
    for cohort in cohorts:
        rules = _correctable_rules_of(cohort.rules)
        if rules:
            start = cohort.settled_to
            input_start = None if start is None else start - cohort.shape.reach
            slices.append(RuleSlice(rules, TimeRange(start), TimeRange(input_start)))
    return slices


def due_slices(
    cohorts: Iterable[RuleCohort], watermarks: Mapping[str, Micros | None]
) -> list[RuleSlice]:
    """The slices that can be settled at these watermarks, by stream."""
    parts: list[tuple[Sequence[ActiveRule], TimeRange]] = []
    for cohort in cohorts:
        shape = cohort.shape
        horizon = shape.horizon(watermarks)
        time_range = TimeRange(cohort.settled_to, horizon)
        if horizon is None or time_range.is_empty:
            continue
        earlier_watermark = None
        if cohort.settled_to is not None:
            earlier_watermark = cohort.settled_to + shape.lag
        if shape.closes_window(earlier_watermark, horizon + shape.lag):
            parts.append((cohort.rules, time_range))
    return join_slices(parts)


def join_slices(parts: Iterable[tuple[Sequence[ActiveRule], TimeRange]]) -> list[RuleSlice]:
    """Slices of rules, those of each part with one shape, up to the ends of their ranges.

    Parts with the same bounds, reach and lag share a slice, and thus a statement.
    """
    groups: dict[tuple[TimeRange, Micros, Micros], list[Sequence[ActiveRule]]] = {}
    for rules, time_range in parts:
        shape = rules[0].shape
        groups.setdefault((time_range, shape.reach, shape.lag), []).append(rules)
    slices: list[RuleSlice] = []
    for (time_range, reach, lag), rule_groups in groups.items():
        input_range = time_range.shift(start=-reach, end=lag)
        slices.append(RuleSlice(_concatenate(rule_groups), time_range, input_range))
    return slices
