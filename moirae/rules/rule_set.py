"""Rules and derived streams of a workspace, with their versions and positions in rule files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import orjson

from moirae.documents import Document, KeyPath, Position
from moirae.errors import Problem, Severity
from moirae.rules.external import EXTERNAL_GROUP
from moirae.rules.hybrid_contexts import find_hybrid_contexts
from moirae.rules.model import AlertSpec, DerivedStreamSpec, Group
from moirae.rules.parameters import (
    ParameterValue,
    fill_rule,
    find_source_column,
    find_used_parameters,
    get_sql,
)
from moirae.rules.questions import SimilarRecall
from recall.query import find_tables_reached, tables_in

# The keys that determine the events of a rule and the rows of their contexts.
_VERSION_KEYS = (
    "expr",
    "absent",
    "stream",
    "key",
    "id",
    "for",
    "keep_firing_for",
    "delay",
    "context",
)


_REVISIONS_SUFFIX = "_revisions"
_NOT_EVALUATED = "not evaluated yet"


@dataclass(frozen=True, slots=True)
class Origin:
    """The position in a rule file that a group, rule or derived stream was read from."""

    document: Document
    path: KeyPath

    @property
    def file(self) -> str:
        return self.document.file

    def position(self, *path: str | int, line: int = 1, column: int = 1) -> Position:
        """The position of the value at `path` below this one.

        For a text: the position of its character at `line` and `column`, both from 1.
        """
        return self.document.text_position(self.path + path, line, column)


@dataclass(frozen=True, slots=True)
class DerivedQuery:
    """A named query whose result is a stream."""

    group: str
    stream: str
    expr: str
    archive: bool = False
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def make_problem(
        self,
        message: str,
        *path: str | int,
        line: int = 1,
        column: int = 1,
        severity: Severity = "error",
    ) -> Problem:
        """A problem at the key `path`, such as "expr"; `line` and `column` count in its text."""
        name = f"{self.group}/{self.stream}"
        return _build_problem(self.origin, name, message, path, line, column, severity)


@dataclass(frozen=True, slots=True)
class RevisionStream:
    """A stream of rows that may be corrected, as the event queries of other rules read it.

    It is that of a recall or stage (`output`) of `rule`, or has the alerts of `rules`, or else the
    stored events of `rule`. `name`: as queries have it; `columns`: with Spark's types.
    `is_similar`: of a similarity recall.
    """

    name: str
    rule: str
    output: str
    columns: Mapping[str, str] = field(hash=False)
    is_similar: bool = False
    rules: tuple[str, ...] = ()

    @property
    def is_of_recall(self) -> bool:
        """Whether it is the stream of a recall or stage."""
        return bool(self.output)

    @property
    def producers(self) -> tuple[str, ...]:
        """The rules that its rows follow from."""
        return self.rules or (self.rule,)

    @property
    def table(self) -> str:
        """A name that it shares with no stream of other rows."""
        if self.is_of_recall:
            return self.name
        kind = "alerts" if self.rules else "events"
        digest = hashlib.sha256(orjson.dumps(self.producers)).hexdigest()[:12]
        return f"_{kind}_{digest}"

    @property
    def has_all_revisions(self) -> bool:
        """Whether a row is a revision, instead of a row after the last revision."""
        return self.name.endswith(_REVISIONS_SUFFIX)


@dataclass(frozen=True, slots=True)
class EventStream:
    """A query that stands for the events of `rule` where other queries read them.

    `name`: the table as `recall.query.tables_in` has it; `columns`: with Spark's types. What the
    query reads of other groups is an event stream too: of their derived streams with `rule` "" and
    without columns. `is_early`: its events are detected before their windows close.
    """

    name: str
    rule: str
    expr: str
    columns: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_early: bool = False


def revisions_table(stream: str) -> str:
    """The name of the table of all revisions of a stream."""
    return stream + _REVISIONS_SUFFIX


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert rule and the settings of its group. `spec` includes defaults.

    `source`: as written, without the values of its parameters in its SQL; None for a stored rule.
    `revision_streams`: those that its event query reads, set when the rule is checked.
    `event_streams`: those that its queries read, also through others, set when it is checked.
    `term_types`: of columns that its contexts read and whose values had another text before their
    type was changed, set when its file is checked.
    """

    group: str
    spec: AlertSpec
    derived: tuple[DerivedQuery, ...] = ()  # of its group
    interval: timedelta | None = None
    query_offset: timedelta = timedelta(0)
    limit: int | None = None  # events per evaluation; of the rule, else of its group
    revision_streams: tuple[RevisionStream, ...] = ()
    event_streams: tuple[EventStream, ...] = ()
    term_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: AlertSpec | None = field(default=None, compare=False, repr=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        group = EXTERNAL_GROUP if self.spec.external else self.group
        return f"{group}/{self.spec.alert}"

    @property
    def derived_queries(self) -> dict[str, str]:
        """The SQL of the derived streams and event streams that its queries may read, by name."""
        queries = {query.stream: query.expr for query in self.derived}
        return queries | {stream.name: stream.expr for stream in self.event_streams}

    @property
    def has_corpus_of_events(self) -> bool:
        """Whether a similarity recall compares all events of the rule."""
        return any(
            isinstance(recall, SimilarRecall) and recall.corpus == "events"
            for recall in self.spec.recall.values()
        )

    def with_parameters(self, values: Mapping[str, ParameterValue]) -> Rule:
        """The rule with other values of some parameters. Only of a rule that was read from a file."""
        assert self.source is not None
        spec = fill_rule(self.source, {**self.source.parameters, **values})
        return replace(self, spec=spec)

    @property
    def version(self) -> str:
        """A hash of the keys that determine events and contexts.

        Other edits, such as of an annotation, keep the version and with it the rule's history.
        """
        spec = self.spec.model_dump(mode="json", by_alias=True)
        content = {name: spec[name] for name in _VERSION_KEYS}
        if self.spec.expected is not None:
            content["expected"] = self.spec.expected
        if self.spec.on_silence == "hold":
            content["on_silence"] = "hold"
        if self.has_corpus_of_events:
            content["corpus"] = "events"
        if self.spec.external:
            # The query follows from the names of labels in other keys, also in annotations.
            content["expr"] = EXTERNAL_GROUP
        content["derived"] = {derived.stream: derived.expr for derived in self.derived}
        events = self._find_event_streams_of_version()
        if events:
            content["events"] = {stream.name: stream.expr for stream in events}
        recalls = frozenset().union(*find_hybrid_contexts(self.spec).values())
        if recalls:
            queries = [spec["recall"][name] for name in sorted(recalls)]
            content["recall"] = [
                (query.get("sql") or query["normal"], query.get("range")) for query in queries
            ]
        if self.term_types:
            content["types"] = dict(self.term_types)
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def _find_event_streams_of_version(self) -> list[EventStream]:
        """Those that its events and contexts follow from: recalls and stages may read others."""
        if not self.event_streams:
            return []
        queries = [query.sql for query in self.spec.context.values()]
        if self.spec.expr is not None:
            queries.append(self.spec.expr)
        tables = {self.spec.stream or ""}.union(*map(tables_in, queries))
        reached = find_tables_reached(tables, self.derived_queries)
        return [stream for stream in self.event_streams if stream.name in reached]

    def position(self, *path: str | int, line: int = 1, column: int = 1) -> Position | None:
        """The position of a key of the rule, see `Origin.position`; None for a stored rule."""
        if self.origin is None:
            return None
        column = self._find_source_column(path, line, column)
        return self.origin.position(*path, line=line, column=column)

    def make_problem(
        self,
        message: str,
        *path: str | int,
        line: int = 1,
        column: int = 1,
        severity: Severity = "error",
    ) -> Problem:
        """A problem at the key `path`, such as "context", "own", "sql"."""
        column = self._find_source_column(path, line, column)
        return _build_problem(self.origin, self.id, message, path, line, column, severity)

    def _find_source_column(self, path: KeyPath, line: int, column: int) -> int:
        """The column in a text as written: values of parameters have other lengths."""
        text = None if self.source is None else get_sql(self.source, path)
        if text is None:
            return column
        return find_source_column(text, self.spec.parameters, line, column)

    def keys_without_effect(self) -> dict[KeyPath, str]:
        """The keys of the rule and its group that are set but have no effect, with the reasons."""
        reasons: dict[KeyPath, str] = {}
        if self.interval is not None:
            reasons["interval",] = (
                f"{_NOT_EVALUATED}, the key has no effect: rules are evaluated with every batch"
            )
        if self.spec.delay and not _uses_delay(self.spec):
            reasons["delay",] = "the key has no effect: no query of the rule uses it as its delay"
        if self.source is not None:
            for name in self.spec.parameters.keys() - find_used_parameters(self.source):
                reasons["parameters", name] = (
                    f"neither SQL contains :{name} nor annotations parameters.{name}"
                )
        return reasons

    def to_json(self) -> dict[str, Any]:
        """The rule as stored: a group with this rule alone."""
        derived = [
            {"stream": query.stream, "expr": query.expr, "archive": query.archive}
            for query in self.derived
        ]
        group = {
            "name": self.group,
            "interval": self.interval,
            "query_offset": self.query_offset,
            "limit": self.limit,
            "derived": derived,
            "rules": [self.spec],
        }
        content = Group.model_validate(group).model_dump(mode="json", by_alias=True)
        for key in ("parameters", "lint"):
            if not getattr(self.spec, key):
                del content["rules"][0][key]  # the digests of rules without any stay
        for recall in content["rules"][0]["recall"].values():
            if recall.get("corpus") == "fired":
                del recall["corpus"]
        return content

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Restore a rule from `to_json`. It has no origin."""
        return build_rules(Group.model_validate(data))[0]


def has_same_alerts(rule: Rule, other: Rule) -> bool:
    """Whether two versions of a rule differ in nothing that their alerts depend on."""
    return _list_alert_keys(rule) == _list_alert_keys(other)


def _list_alert_keys(rule: Rule) -> dict[str, Any]:
    content = rule.to_json()
    for name in ("annotations", "lint", "parameters"):  # parameters are in its SQL
        content["rules"][0].pop(name, None)
    return content


def _uses_delay(spec: AlertSpec) -> bool:
    """Whether a context, surrounding or stage has no delay of its own."""
    queries = [*spec.context.values(), *spec.surroundings.values(), *spec.then]
    return any(query.delay is None for query in queries)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules and derived streams of a workspace, in the order of their files."""

    rules: tuple[Rule, ...] = ()
    derived: tuple[DerivedQuery, ...] = ()


def build_derived_queries(group: Group, origin: Origin | None = None) -> tuple[DerivedQuery, ...]:
    """The derived streams of a group; `origin` is the group's."""
    queries: list[DerivedQuery] = []
    for index, spec in enumerate(group.derived):
        query_origin = _child_origin(origin, "derived", index)
        queries.append(_build_derived_query(group.name, spec, query_origin))
    return tuple(queries)


def build_rules(group: Group, origin: Origin | None = None) -> tuple[Rule, ...]:
    """The rules of a group; `origin` is the group's."""
    derived = build_derived_queries(group, origin)
    return tuple(
        Rule(
            group=group.name,
            spec=fill_rule(spec, spec.parameters) if spec.parameters else spec,
            source=spec if spec.parameters and origin is not None else None,
            derived=derived,
            interval=group.interval,
            query_offset=group.query_offset,
            limit=spec.limit or group.limit,
            origin=_child_origin(origin, "rules", index),
        )
        for index, spec in enumerate(group.rules)
    )


def _build_derived_query(
    group: str, spec: DerivedStreamSpec, origin: Origin | None
) -> DerivedQuery:
    return DerivedQuery(group, spec.stream, spec.expr, spec.archive, origin)


def _child_origin(origin: Origin | None, *path: str | int) -> Origin | None:
    return None if origin is None else Origin(origin.document, origin.path + path)


def _build_problem(
    origin: Origin | None,
    name: str,
    message: str,
    path: KeyPath,
    line: int,
    column: int,
    severity: Severity,
) -> Problem:
    if origin is None:
        return Problem(name, None, None, message, severity)
    position = origin.position(*path, line=line, column=column)
    return Problem(origin.file, *position, f"{name}: {message}", severity)
