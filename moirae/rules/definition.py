"""A checked rule, independent of the file that it was read from, and its event query."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from archiver.times import Micros, duration_to_micros
from moirae.rules.absence import build_absence_sql, build_rows_sql
from moirae.rules.external import EXTERNAL_GROUP, LABELS_ATTRIBUTE, LABELS_CONTEXT
from moirae.rules.model import AlertSpec, Group
from moirae.rules.questions import AnyRecall, SimilarRecall
from moirae.rules.revision_streams import derived_without
from moirae.rules.rule_set import EventStream, RevisionStream, Rule, build_rules
from recall.query import (
    Shape,
    Tables,
    find_tables_reached,
    infer_shape,
    rename_tables,
    tables_in,
)
from recall.requests import SimilarQuestion
from recall.revisions import HIT_COLUMNS, context_column

# Absence is evaluated this many times per its duration, so a long absence costs no more than a
# short one.
_EVALUATIONS_PER_ABSENCE = 20
_MICROS_PER_SECOND = 1_000_000


@dataclass(frozen=True)
class Definition:
    """A rule that passed its check.

    `types`: Spark types of the attributes that the event query returns, in order, without `ts`.
    `key`, `id`: attributes that form the fingerprint and the event identity, defaults filled in.
    `result_columns`: columns and types of the results of contexts, surroundings, recalls and
    stages.
    `merged_types`: per SQL recall, the columns and types from which its result is merged.
    """

    rule: Rule
    types: Mapping[str, str]
    key: tuple[str, ...]
    id: tuple[str, ...]
    result_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    merged_types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the attributes, in order."""
        return tuple(self.types)

    def output_columns(self, name: str) -> Mapping[str, str]:
        """Columns and types of a recall or stage when a stage reads it as a table.

        Its rows carry the event's key columns, unless they have columns of these names. Those of a
        similarity recall carry the attributes of the past event, and its contexts as JSON.
        """
        columns = self.result_columns.get(name, {})
        if isinstance(self.spec.recall.get(name), SimilarRecall):
            contexts = {context_column(context): "string" for context in self.spec.context}
            return {**contexts, **self.types, **HIT_COLUMNS}
        return {**{key: self.types[key] for key in self.key if key in self.types}, **columns}

    @property
    def outputs(self) -> dict[str, str | None]:
        """The recalls and stages, with the names of their streams outside the rule.

        None: it has no such name.
        """
        names = {name: recall.stream for name, recall in self.spec.recall.items()}
        return {**names, **{stage.stream: stage.stream for stage in self.spec.then}}

    def columns_of(self, name: str) -> Mapping[str, str]:
        """Columns and types of a context, surrounding or recall when a query reads it as a table.

        The values of a context are terms, so all its columns are strings.
        """
        columns = self.result_columns.get(name, {})
        if name in self.spec.context:
            return dict.fromkeys(columns, "string")
        return columns

    @cached_property
    def name(self) -> str:
        """`<group>/<alert>`."""
        return self.rule.id

    @property
    def spec(self) -> AlertSpec:
        """The keys of the rule, defaults filled in."""
        return self.rule.spec

    @property
    def recalls(self) -> Mapping[str, AnyRecall]:
        """The recalls by name."""
        return self.spec.recall

    @property
    def event_limit(self) -> int | None:
        """Maximum number of events per evaluation."""
        return self.rule.limit

    @property
    def is_absence(self) -> bool:
        """Whether the rule looks for absent rows, see `AlertSpec.absent`."""
        return self.spec.absent is not None

    @property
    def is_external(self) -> bool:
        """Whether its events are alerts that other systems post."""
        return self.spec.external

    @property
    def is_early(self) -> bool:
        """Whether events are detected while what they are computed from may change."""
        return self.spec.early or self.reads_revisions or self._reads_early_events

    @cached_property
    def _reads_early_events(self) -> bool:
        """Whether its event query reads events that are detected early."""
        early = {stream.name for stream in self.rule.event_streams if stream.is_early}
        if not early or self.spec.expr is None:
            return False
        reached = find_tables_reached(tables_in(self.spec.expr), self.rule.derived_queries)
        return not early.isdisjoint(reached)

    @property
    def reads_revisions(self) -> bool:
        """Whether its event query reads streams of recalls or stages, which are corrected."""
        return bool(self.rule.revision_streams)

    @property
    def pending_for(self) -> Micros:
        """The key `for`."""
        return duration_to_micros(self.spec.for_)

    @property
    def keep_firing_for(self) -> Micros:
        return duration_to_micros(self.spec.keep_firing_for)

    @property
    def delay(self) -> Micros:
        return duration_to_micros(self.spec.delay)

    @property
    def stage_delay(self) -> Micros:
        """Event time after an event up to which its stages read live rows, at most."""
        delays = [
            duration_to_micros(self.spec.delay if stage.delay is None else stage.delay)
            for stage in self.spec.then
        ]
        return max(delays, default=0)

    @property
    def recalls_every_event(self) -> bool:
        """Whether recalls are about every event of an alert, not only the one that fires it."""
        return self.spec.recall_on == "every"

    @property
    def has_corpus_of_events(self) -> bool:
        """Whether all events of the rule are compared, also those of alerts that never fire."""
        return self.rule.has_corpus_of_events

    @property
    def compares_every_event(self) -> bool:
        """Whether the corpus has further events of an alert than its first one."""
        return self.recalls_every_event or self.has_corpus_of_events

    @cached_property
    def has_questions(self) -> bool:
        """Whether the rule has contexts, surroundings or recalls."""
        return bool(self.spec.context or self.spec.surroundings or self.spec.recall)

    @cached_property
    def version(self) -> str:
        """See `Rule.version`."""
        return self.rule.version

    def to_json(self) -> dict[str, Any]:
        """The definition as stored in the database."""
        content = {
            "rule": self.rule.to_json(),
            "reads": [_stream_to_json(stream) for stream in self.rule.revision_streams],
            "term_types": dict(self.rule.term_types),
            **self.results_to_json(),
        }
        if self.rule.event_streams:  # the digests of rules without any stay
            content["events"] = [_stream_to_json(stream) for stream in self.rule.event_streams]
        return content

    def results_to_json(self) -> dict[str, Any]:
        """What the check of the rule has added to it."""
        result_columns = {
            name: list(columns.items()) for name, columns in self.result_columns.items()
        }
        return {
            "answers": result_columns,
            "merged": {name: dict(types) for name, types in self.merged_types.items()},
            "types": list(self.types.items()),
            "key": self.key,
            "id": self.id,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Definition":
        """Restore a definition from `to_json`; its rule has no origin."""
        streams = [RevisionStream(**_read_stream(values)) for values in stored.get("reads", ())]
        event_streams = [EventStream(**_read_stream(values)) for values in stored.get("events", ())]
        rule = replace(
            Rule.from_json(stored["rule"]),
            revision_streams=tuple(streams),
            event_streams=tuple(event_streams),
            term_types=stored.get("term_types", {}),
        )
        return cls.from_results(rule, stored)

    @classmethod
    def from_results(cls, rule: Rule, results: Mapping[str, Any]) -> "Definition":
        """The definition of a rule with `results_to_json`."""
        return cls(
            rule=rule,
            types=dict(results["types"]),
            key=tuple(results["key"]),
            id=tuple(results["id"]),
            result_columns={name: dict(items) for name, items in results["answers"].items()},
            merged_types=results.get("merged", {}),
        )

    def build_similar_question(self, recall: SimilarRecall) -> SimilarQuestion:
        """The question of one of the rule's similarity recalls."""
        similar = recall.similar
        spec = self.spec
        contexts = similar.contexts or tuple(spec.context)
        bandwidths: dict[str, float | None] = {}
        for context in contexts:
            bandwidths.update(spec.context[context].numeric)
        feedback = None
        if recall.feedback is not None:
            feedback = recall.feedback.total_seconds()
        return SimilarQuestion(
            range=None,
            every=recall.every.total_seconds(),
            order=similar.order,
            feedback=feedback,
            contexts=contexts,
            k=similar.k,
            measure=similar.measure,
            gap=duration_to_micros(similar.gap),
            numeric=bandwidths,
        )


def make_external_definition(alert: str) -> Definition:
    """The rule of a name of posted alerts that no rule file declares; `alert`: the encoded name."""
    group = Group.model_validate(
        {"name": EXTERNAL_GROUP, "rules": [{"alert": alert, "external": True}]}
    )
    (rule,) = build_rules(group)
    key = (LABELS_ATTRIBUTE,)
    types = {LABELS_ATTRIBUTE: "string"}
    return Definition(rule, types, key, key, result_columns={LABELS_CONTEXT: types})


def build_rule_tables(rule: Rule, streams: Mapping[str, str], relations: frozenset[str]) -> Tables:
    """The tables that queries about events of a rule may read.

    `streams` maps declared streams to their time columns.
    """
    derived = rule.derived_queries
    if rule.revision_streams:
        derived = derived_without(derived, {stream.name for stream in rule.revision_streams})
    return Tables(streams, relations, derived)


def build_event_tables(rule: Rule, streams: Mapping[str, str], relations: frozenset[str]) -> Tables:
    """The tables that the event query of a rule may read: streams that are corrected, too."""
    names = revision_tables(rule)
    derived = rule.derived_queries
    if names:
        derived = {name: rename_tables(expr, names) for name, expr in derived.items()}
    revision_streams = {stream.table: "ts" for stream in rule.revision_streams}
    return Tables({**streams, **revision_streams}, relations, derived)


def revision_tables(rule: Rule) -> dict[str, str]:
    """The tables of streams that are corrected, by the other names that queries have for them."""
    return {
        stream.name: stream.table for stream in rule.revision_streams if not stream.is_of_recall
    }


def build_event_sql(rule: Rule, tables: Tables) -> str:
    """The event query: `expr`, or one generated from `absent`, `stream` and `key`."""
    spec = rule.spec
    if spec.expr is not None:
        return rename_tables(spec.expr, revision_tables(rule))
    assert spec.stream is not None and spec.absent is not None and spec.key is not None
    time = tables.streams.get(spec.stream, "ts")
    return build_absence_sql(spec.stream, time, spec.key, spec.absent.total_seconds())


def build_watched_rows_sql(rule: Rule, tables: Tables) -> str:
    """The key and time of the rows of the stream that a rule of absence watches."""
    spec = rule.spec
    assert spec.stream is not None and spec.key is not None
    return build_rows_sql(spec.stream, tables.streams.get(spec.stream, "ts"), spec.key)


def infer_event_shape(rule: Rule, tables: Tables) -> Shape:
    """How the event query is evaluated incrementally. Raises `recall.query.Unsupported`."""
    spec = rule.spec
    if spec.expr is not None:
        shape = infer_shape(build_event_sql(rule, tables), tables)
    else:
        assert spec.stream is not None and spec.absent is not None
        time = tables.streams.get(spec.stream, "ts")
        stream_shape = infer_shape(f"SELECT `{time}` AS ts FROM {spec.stream}", tables)
        gap = duration_to_micros(spec.absent)
        period = max(gap // _EVALUATIONS_PER_ABSENCE, _MICROS_PER_SECOND)
        # An expected key that came shortly before it became valid is silent since then.
        reach = stream_shape.reach + gap * (1 if spec.expected is None else 2)
        relations = stream_shape.relations | ({spec.expected} if spec.expected else set())
        shape = replace(
            stream_shape, reach=reach, relations=frozenset(relations), period=period, offset=0
        )
    return replace(shape, lag=shape.lag + duration_to_micros(rule.query_offset))


def _stream_to_json(stream: RevisionStream | EventStream) -> dict[str, Any]:
    values = {**asdict(stream), "columns": list(stream.columns.items())}
    if not values.get("rules"):
        values.pop("rules", None)  # the digests of rules without alerts stay
    return values


def _read_stream(values: Mapping[str, Any]) -> dict[str, Any]:
    columns = dict(values["columns"])
    if "rules" in values:
        return {**values, "columns": columns, "rules": tuple(values["rules"])}
    return {**values, "columns": columns}
