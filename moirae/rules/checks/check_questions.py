"""Check the queries of a rule about its events: contexts, surroundings, recalls, `where`, `then`.

Spark analyses every query in the SQL sandbox, over empty views. No query is executed.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from graphlib import CycleError

from sqlglot import exp

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.alert_table import (
    ALERT_COLUMNS,
    ALERT_VERSION_COLUMNS,
    ALERTS,
    add_past_alerts,
    reads_past_alerts,
)
from moirae.rules.checks.check_session import CheckSession, create_empty_view
from moirae.rules.checks.pattern_warnings import find_pattern_warnings
from moirae.rules.checks.result_types import infer_result_types, locate_fragment
from moirae.rules.checks.rule_warnings import RuleWarning
from moirae.rules.definition import Definition
from moirae.rules.hybrid_contexts import find_hybrid_contexts, find_hybrid_problems
from moirae.rules.questions import HistoryRecall, NormalRecall, SimilarRecall, SqlRecall, ThenStage
from moirae.rules.requests import (
    ContextQuery,
    build_context_queries,
    build_scope,
    condition_coverage,
    find_recalls_in_where,
    lift_context_query,
    stage_coverage,
    stage_inputs,
)
from moirae.rules.rule_set import Rule
from recall.errors import QueryRejected
from recall.event_plans import order_stages
from recall.norms import NORM_COLUMNS, VALUE_COLUMN
from recall.query import (
    PhysicalTables,
    Tables,
    Unsupported,
    check_table_count,
    sql_names,
    tables_in,
    tables_used,
)
from recall.query.lift import TableBindings, lift_query
from recall.sandbox import validate_query
from recall.similarity.measures import LEARNED_MEASURE, MEASURES

# Views of a check begin with _, as no name in a workspace or a rule file does.
_PENDING_VIEW = "_pending"
# Beginnings of the types of columns that a recall may be ordered by.
_ORDERED_TYPES = ("int", "bigint", "float", "double", "decimal", "timestamp")
_NUMBER_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_EVENT_VIEW = "_event"
_MERGED_VIEW = sql_names.MERGED_TABLE
_TABLE_VIEW = "_table_{}"
_PAST_ALERTS_VIEW = "_past_alerts"


def check_questions(
    session: CheckSession, settings: Settings, definition: Definition, tables: Tables
) -> tuple[Definition, list[Problem]]:
    """Return the definition completed by the result columns of all queries, and the problems.

    The session has a view of every stream and derived stream.
    """
    checker = _QuestionChecker(session, settings, definition, tables)
    problems = [
        *checker.check_contexts_and_recalls(),
        *checker.check_condition(),
        *checker.check_stages(),
    ]
    return checker.definition, problems


class _QuestionChecker:
    """Checks one rule. Each check adds result columns to `definition`; later checks use them."""

    def __init__(
        self, session: CheckSession, settings: Settings, definition: Definition, tables: Tables
    ) -> None:
        self._session = session.spark
        self._stream_views = session.stream_views
        self._relations = settings.relations
        self._stream_columns = {name: s.columns for name, s in settings.streams.items()}
        self._tables = tables
        self._rule = definition.rule
        self.definition = definition

    @cached_property
    def _views_by_table(self) -> Mapping[str, str]:
        """Views of streams and relations. Created on first use: most rules have no queries."""
        views = dict(self._stream_views)
        for name, relation in self._relations.items():
            views[name] = _TABLE_VIEW.format(name)
            self._create_empty_view(views[name], {**relation.columns, **sql_names.VALIDITY_TYPES})
        pending = {
            sql_names.EID: "string",
            sql_names.EVENT_TS: "timestamp",
            sql_names.LOW: "timestamp",
            sql_names.HIGH: "timestamp",
        }
        for name, kind in self.definition.types.items():
            pending[sql_names.attribute_column(name)] = kind
        self._create_empty_view(_PENDING_VIEW, pending)
        if ALERTS not in views:
            views[ALERTS] = _TABLE_VIEW.format(ALERTS)
            self._create_empty_view(views[ALERTS], ALERT_COLUMNS)
        return views

    def check_contexts_and_recalls(self) -> Iterator[Problem]:
        """Check contexts, surroundings and recalls, each after those that it reads."""
        spec = self._rule.spec
        hybrid_problems = list(find_hybrid_problems(spec))
        for problem in hybrid_problems:
            yield self._rule.make_problem(problem.message, problem.section, problem.name, "sql")
        hybrid = {} if hybrid_problems else find_hybrid_contexts(spec)
        named_recalls = frozenset().union(*hybrid.values())
        refused = {problem.name for problem in hybrid_problems}
        queries = [q for q in build_context_queries(self.definition) if q.name not in refused]
        yield from self._check_contexts(q for q in queries if not q.recalls)
        yield from self._check_recalls(named_recalls)
        yield from self._check_contexts(q for q in queries if q.recalls)
        yield from self._check_recalls(spec.recall.keys() - named_recalls)

    def _check_contexts(self, queries: Iterable[ContextQuery]) -> Iterator[Problem]:
        for context_query in queries:
            section = "context" if context_query.is_compared else "surroundings"
            path = (section, context_query.name)
            try:
                problem = self._check_context(context_query, path)
            except (Unsupported, QueryRejected) as error:
                problem = self._rule.make_problem(
                    str(error), *path, "sql", line=error.line, column=error.column
                )
            if problem is not None:
                yield problem

    def _check_context(self, context_query: ContextQuery, path: tuple[str, str]) -> Problem | None:
        sql = context_query.query.sql
        check_table_count(sql, self._tables.derived)
        views = {name: self._create_event_view(name) for name in context_query.recalls}
        lifted = lift_context_query(
            context_query, self.definition, self._tables, self._bind_tables(views)
        )
        streams = sorted(lifted.inputs.streams | lifted.inputs.derived)
        if streams and context_query.query.within is None:
            message = f"missing key 'within': the query reads stream {', '.join(streams)}"
            return self._rule.make_problem(message, *path)
        self._add_result_columns(context_query.name, self._validate(lifted.sql, sql))
        return None

    def _check_recalls(self, names: Collection[str]) -> Iterator[Problem]:
        """Check SQL recalls (the query, its partial query and its merge) and similarity recalls."""
        for name, recall in self._rule.spec.recall.items():
            if name not in names:
                continue
            if isinstance(recall, SimilarRecall):
                yield from self._check_similarity_recall(name, recall)
                continue
            if isinstance(recall, NormalRecall):
                yield from self._check_norm(name, recall)
                continue
            try:
                self._check_sql_recall(name, recall)
                yield from self._check_extreme(name, recall)
            except (Unsupported, QueryRejected) as error:
                yield self._rule.make_problem(
                    str(error), "recall", name, "sql", line=error.line, column=error.column
                )

    def _check_similarity_recall(self, name: str, recall: SimilarRecall) -> Iterator[Problem]:
        measure = recall.similar.measure
        if measure != LEARNED_MEASURE and measure not in MEASURES:
            names = ", ".join(sorted([*MEASURES, LEARNED_MEASURE]))
            message = f"unknown measure {measure!r}; must be one of {names}"
            yield self._rule.make_problem(message, "recall", name, "similar", "measure")
        if not self._rule.spec.context:
            message = "a similarity recall compares contexts; add a context to the rule"
            yield self._rule.make_problem(message, "recall", name)

    def _check_norm(self, name: str, recall: NormalRecall) -> Iterator[Problem]:
        """Check that the query of a norm's rows can be run, and that it is about numbers."""
        path = ("recall", name, "normal")
        norm = recall.normal
        types = self.definition.types
        for column, key in ((norm.of, "of"), *((column, "by") for column in norm.by)):
            if column not in types:
                available = ", ".join(sorted(types))
                message = f"{column!r} is no attribute of the event; available: {available}"
                yield self._rule.make_problem(message, *path, key)
                return
        try:
            self._check_sql_recall(name, recall)
        except (Unsupported, QueryRejected) as error:
            yield self._rule.make_problem(f"history of {norm.stream}: {error}", *path)
            return
        for kind in (types[norm.of], self.definition.result_columns[name][VALUE_COLUMN]):
            if not kind.startswith(_NUMBER_TYPES):
                message = f"{norm.of!r} is of type {kind}; a norm is computed of numbers"
                yield self._rule.make_problem(message, *path, "of")
                return
        self._add_result_columns(name, dict(NORM_COLUMNS))

    def _check_sql_recall(self, name: str, recall: HistoryRecall) -> None:
        event_tables = {*self._rule.spec.context, *self._rule.spec.surroundings}
        tables = add_past_alerts(self._tables, recall.sql)
        views = {sql_names.MERGED_TABLE: _MERGED_VIEW}
        if tables is not self._tables:
            views[ALERTS] = _PAST_ALERTS_VIEW
            self._create_empty_view(_PAST_ALERTS_VIEW, ALERT_VERSION_COLUMNS)
        elif not tables_used(recall.sql, {*tables.streams, *tables.derived}):
            raise Unsupported("a recall must read a stream, a derived stream or alerts")
        for table in event_tables:
            views[table] = self._create_event_view(table)
        bindings = self._bind_tables(views)

        def validate(query: str | exp.Query, event_tables: Collection[str]) -> dict[str, str]:
            scope = build_scope(self.definition, tables, event_tables)
            return self._validate(lift_query(query, scope, bindings).sql, recall.sql)

        types = infer_result_types(
            recall.sql,
            tables,
            event_tables,
            validate,
            lambda columns: self._create_empty_view(_MERGED_VIEW, columns),
        )
        order = "newest" if isinstance(recall, NormalRecall) else recall.order
        if types.whole is not None and order not in ("newest", "oldest"):
            raise Unsupported(f"order {order} reads chunks apart from each other: {types.whole}")
        self._add_result_columns(name, dict(types.columns))
        self.definition = replace(
            self.definition,
            merged_types={**self.definition.merged_types, name: types.merged},
        )

    def _check_extreme(self, name: str, recall: SqlRecall) -> Iterator[Problem]:
        """Check the column of the order `extreme`, whose statistics are those of a stream's files."""
        if recall.extreme is None:
            return
        streams = tables_used(recall.sql, self._tables.streams)
        derived = tables_used(recall.sql, self._tables.derived)
        if len(streams) != 1 or derived or not streams <= self._stream_columns.keys():
            message = "order: extreme needs a query that reads one declared stream, and no other"
            yield self._rule.make_problem(message, "recall", name, "order")
            return
        (stream,) = streams
        columns = self._stream_columns[stream]
        kind = columns.get(recall.extreme, "")
        if not kind.startswith(_ORDERED_TYPES):
            names = ", ".join(sorted(c for c, t in columns.items() if t.startswith(_ORDERED_TYPES)))
            message = (
                f"{recall.extreme!r} is not a number or time of stream {stream}; available: {names}"
            )
            yield self._rule.make_problem(message, "recall", name, "extreme")

    def _create_event_view(self, table: str) -> str:
        """A view of a context, surrounding or recall as a table with rows for each event."""
        view = _TABLE_VIEW.format(table)
        columns = {sql_names.EID: "string", **self.definition.columns_of(table)}
        self._create_empty_view(view, columns)
        return view

    def check_condition(self) -> Iterator[Problem]:
        """Check `where`, a condition over the event and the results of SQL recalls."""
        spec = self._rule.spec
        if spec.where is None:
            return
        try:
            recall_names = find_recalls_in_where(self.definition)
        except Unsupported as error:
            yield self._rule.make_problem(str(error), "where")
            return
        if not recall_names:
            yield self._rule.make_problem(
                "where refers to no recall of the rule; move conditions on the event to expr",
                "where",
            )
            return
        for name in sorted(recall_names):
            recall = spec.recall[name]
            if isinstance(recall, SimilarRecall):
                message = f"where can refer to SQL recalls only; {name} is a similarity recall"
                yield self._rule.make_problem(message, "where")
                return
            if reads_past_alerts(recall.sql, self._tables):
                message = (
                    f"where cannot refer to {name}, which reads alerts: where decides which alerts "
                    "there are"
                )
                yield self._rule.make_problem(message, "where")
                return
            if self._is_until_previous(name):
                message = (
                    f"where cannot refer to {name}, whose range ends at the alert before: "
                    "where decides which alerts there are"
                )
                yield self._rule.make_problem(message, "where")
                return
        try:
            self._validate_condition(spec.where, recall_names)
        except QueryRejected as error:
            line, column = locate_fragment(spec.where, error)
            yield self._rule.make_problem(str(error), "where", line=line, column=column)

    def _is_until_previous(self, name: str) -> bool:
        recall = self._rule.spec.recall[name]
        return (
            isinstance(recall, SqlRecall) and recall.range is not None and bool(recall.range.until)
        )

    def _validate_condition(self, condition: str, recall_names: Collection[str]) -> None:
        self._create_empty_view(_EVENT_VIEW, {"ts": "timestamp", **self.definition.types})
        joins = ""
        coverage = condition_coverage(self.definition, self._tables)
        for name in sorted(recall_names):
            view = _TABLE_VIEW.format(name)
            columns = {**self.definition.columns_of(name), **coverage.get(name, {})}
            self._create_empty_view(view, columns)
            joins += f" CROSS JOIN {view} AS `{name}`"
        sql = f"SELECT ({condition}) AS verdict FROM {_EVENT_VIEW} AS event{joins}"
        verdict_type = validate_query(self._session, sql)["verdict"].dataType.simpleString()
        if verdict_type != "boolean":
            raise QueryRejected(f"where must be a boolean condition, not {verdict_type}")

    def check_stages(self) -> Iterator[Problem]:
        """Check `then`: each stage after those that it reads."""
        stages = {stage.stream: stage for stage in self._rule.spec.then}
        indexes = {stage.stream: index for index, stage in enumerate(self._rule.spec.then)}
        inputs_by_stage: dict[str, list[str]] = {}
        for name, stage in stages.items():
            try:
                inputs_by_stage[name] = sorted(tables_in(stage.sql))
            except Unsupported as error:
                yield self._rule.make_problem(
                    str(error),
                    "then",
                    indexes[name],
                    "sql",
                    line=error.line,
                    column=error.column,
                )
                return
        try:
            names = order_stages(inputs_by_stage)
        except CycleError as error:
            cycle = " → ".join(reversed(error.args[1]))
            index = indexes[error.args[1][0]]
            yield self._rule.make_problem(
                f"stages read each other in a cycle: {cycle}", "then", index, "sql"
            )
            return
        for name in names:
            path = ("then", indexes[name])
            try:
                problem = self._check_stage(stages[name], path)
            except (Unsupported, QueryRejected) as error:
                problem = self._rule.make_problem(
                    str(error), *path, "sql", line=error.line, column=error.column
                )
            if problem is not None:
                yield problem
                return  # later stages may read it

    def _check_stage(self, stage: ThenStage, path: tuple[str, int]) -> Problem | None:
        check_table_count(stage.sql, self._tables.derived)
        inputs = stage_inputs(stage, self.definition)
        coverage = stage_coverage(stage, self.definition, self._tables)
        views = {}
        for name, columns in inputs.items():
            views[name] = _TABLE_VIEW.format(name)
            all_columns = {sql_names.EID: "string", **columns, **coverage.get(name, {})}
            self._create_empty_view(views[name], all_columns)
        scope = replace(build_scope(self.definition, self._tables, inputs), hidden=coverage)
        lifted = lift_query(stage.sql, scope, self._bind_tables(views))
        streams = sorted(lifted.inputs.streams | lifted.inputs.derived)
        if streams and stage.within is None:
            message = f"missing key 'within': the query reads stream {', '.join(streams)}"
            return self._rule.make_problem(message, *path)
        if not streams and stage.analysis == "present":
            message = "analysis: present has no effect: the query reads no stream"
            return self._rule.make_problem(message, *path, "analysis")
        self._add_result_columns(stage.stream, self._validate(lifted.sql, stage.sql))
        return None

    def _bind_tables(self, event_views: Mapping[str, str] | None = None) -> TableBindings:
        """Bind tables to views; `event_views`: those of tables with rows for each event."""
        return TableBindings(
            PhysicalTables({**self._views_by_table, **(event_views or {})}),
            PhysicalTables(self._views_by_table),
            _PENDING_VIEW,
        )

    def _validate(self, sql: str, written_sql: str) -> dict[str, str]:
        """Return the columns of a lifted query with their types.

        Raises `QueryRejected` with a position in `written_sql`.
        """
        try:
            schema = validate_query(self._session, sql, internal=True)
        except QueryRejected as error:
            line, column = locate_fragment(written_sql, error)
            raise QueryRejected(_restore_event_names(error.message), line, column) from error
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        if len(types) < len(schema.fields):
            raise QueryRejected("duplicate column name in the query result; rename it with AS")
        types.pop(sql_names.EID, None)
        return types

    def _add_result_columns(self, name: str, columns: dict[str, str]) -> None:
        self.definition = replace(
            self.definition, result_columns={**self.definition.result_columns, name: columns}
        )

    def _create_empty_view(self, name: str, columns: Mapping[str, str]) -> None:
        create_empty_view(self._session, name, columns)


def find_warnings(rule: Rule) -> Iterator[RuleWarning]:
    """Yield warnings about slow patterns, and measures that ignore bandwidths of columns."""
    yield from find_pattern_warnings(rule)
    for name, recall in rule.spec.recall.items():
        if not isinstance(recall, SimilarRecall) or recall.similar.measure == "tfidf":
            continue
        contexts = recall.similar.contexts or rule.spec.context
        if any(rule.spec.context[context].numeric for context in contexts):
            message = (
                f"measure {recall.similar.measure} compares numeric columns as text; "
                "use tfidf to compare them as numbers"
            )
            yield RuleWarning(message, ("recall", name, "similar", "measure"))


def _restore_event_names(message: str) -> str:
    """Replace column names of the lifted query by the names that the author wrote."""
    return re.sub(r"`_event_(\w+)`", r"`event.\1`", message)
