"""Checking what a rule asks: contexts, surroundings, recalls and its condition, through the gate. Nothing is run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from pyspark.sql import SparkSession

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.definition import Definition
from moirae.rules.questions import SimilarRecall, SqlRecall
from moirae.rules.requests import (
    build_context_queries,
    build_scope,
    lift_context_query,
    recalls_named_in_where,
)
from recall.errors import QueryRejected
from recall.query import (
    PhysicalTables,
    TableBindings,
    Tables,
    Unsupported,
    check_table_count,
    lift_query,
    sql_names,
)
from recall.query.split import split_query
from recall.sandbox import validate_query
from recall.similarity import MEASURES

_PENDING_VIEW = "asked_pending"


def check_questions(
    session: SparkSession, settings: Settings, definition: Definition, tables: Tables
) -> tuple[Definition, list[Problem]]:
    """The definition with the columns of all answers, and what is wrong. Streams have views in the session."""
    checking = _QuestionChecker(session, settings, definition, tables)
    problems = [
        *checking.check_contexts(),
        *checking.check_recalls(),
        *checking.check_condition(),
        *checking.find_warnings(),
    ]
    return checking.definition, problems


class _QuestionChecker:
    """One rule's questions. `definition` grows with what is found out."""

    def __init__(
        self, session: SparkSession, settings: Settings, definition: Definition, tables: Tables
    ) -> None:
        self._session = session
        self._relations = settings.relations
        self._tables = tables
        self._rule = definition.rule
        self.definition = definition

    @cached_property
    def _physical_names(self) -> Mapping[str, str]:
        """The views of streams and relations by name, made when first needed: most rules ask nothing."""
        for name, relation in self._relations.items():
            valid = {sql_names.VALID_FROM: "timestamp", sql_names.VALID_TO: "timestamp"}
            self._create_view(f"asked_{name}", {**relation.columns, **valid})
        pending = {
            sql_names.EID: "string",
            sql_names.EVENT_TS: "timestamp",
            sql_names.LOW: "timestamp",
            sql_names.HIGH: "timestamp",
        }
        attributes = {
            sql_names.attribute_column(name): kind for name, kind in self.definition.types.items()
        }
        self._create_view(_PENDING_VIEW, {**pending, **attributes})
        return {
            **{name: name for name in self._tables.streams},
            **{name: f"asked_{name}" for name in self._relations},
        }

    def check_contexts(self) -> Iterator[Problem]:
        """Contexts and surroundings."""
        for ask in build_context_queries(self.definition):
            path = ("context" if ask.is_compared else "surroundings", ask.name)
            try:
                check_table_count(ask.query.sql, self._tables.derived)
                found = lift_context_query(ask, self.definition, self._tables, self._build_names())
                if (found.inputs.streams | found.inputs.derived) and ask.query.within is None:
                    reads = ", ".join(sorted(found.inputs.streams | found.inputs.derived))
                    yield self._rule.problem(
                        f"within is needed: the query reads the stream {reads}", *path
                    )
                    continue
                self._validate(ask.name, found.sql, ask.query.sql)
            except (Unsupported, QueryRejected) as error:
                yield self._rule.problem(
                    str(error), *path, "sql", line=error.line, column=error.column
                )

    def check_recalls(self) -> Iterator[Problem]:
        """SQL recalls, piece and merge; measures of similarity recalls."""
        spec = self._rule.spec
        for name, recall in spec.recall.items():
            if isinstance(recall, SimilarRecall):
                if recall.similar.measure not in MEASURES:
                    known = ", ".join(sorted(MEASURES))
                    message = f"unknown measure {recall.similar.measure!r}; there are {known}"
                    yield self._rule.problem(message, "recall", name, "similar", "measure")
                if not spec.context:
                    yield self._rule.problem(
                        "a similarity recall compares contexts; the rule has none", "recall", name
                    )
                continue
            try:
                self._check_sql_recall(name, recall)
            except (Unsupported, QueryRejected) as error:
                yield self._rule.problem(
                    str(error), "recall", name, "sql", line=error.line, column=error.column
                )

    def _check_sql_recall(self, name: str, recall: SqlRecall) -> None:
        own = {*self._rule.spec.context, *self._rule.spec.surroundings}
        for table in own:
            self._create_view(
                f"own_{table}", {sql_names.EID: "string", **self.definition.columns_of(table)}
            )
        names = self._build_names(
            {table: f"own_{table}" for table in own}
            | {sql_names.MERGED_TABLE: f"asked{sql_names.MERGED_TABLE}"}
        )
        check_table_count(recall.sql, self._tables.derived)
        parts = split_query(recall.sql, self._tables)
        # The whole query first, for messages in the words of its author.
        whole = self._validated_columns(
            lift_query(recall.sql, build_scope(self.definition, self._tables, own), names).sql,
            recall.sql,
        )
        types: dict[str, str] = {}
        if parts.type_probe is not None:
            types = self._validated_columns(
                lift_query(
                    parts.type_probe, build_scope(self.definition, self._tables, own), names
                ).sql,
                recall.sql,
            )
            parts = split_query(recall.sql, self._tables, types)
        partial = self._validated_columns(
            lift_query(parts.partial, build_scope(self.definition, self._tables, own), names).sql,
            recall.sql,
        )
        self._create_view(
            f"asked{sql_names.MERGED_TABLE}",
            {sql_names.EID: "string", **(partial if parts.selects_rows else types)},
        )
        found = self._validated_columns(
            lift_query(
                parts.merge,
                build_scope(self.definition, self._tables, {*own, sql_names.MERGED_TABLE}),
                names,
            ).sql,
            recall.sql,
        )
        if list(found) != list(whole):
            raise QueryRejected("name each output with AS")
        self._add_result_columns(name, found)
        self.definition = replace(
            self.definition, merged_types={**self.definition.merged_types, name: types}
        )

    def check_condition(self) -> Iterator[Problem]:
        """The condition, over the event and the answers of SQL recalls."""
        spec = self._rule.spec
        if spec.where is None:
            return
        try:
            named = recalls_named_in_where(self.definition)
        except Unsupported as error:
            yield self._rule.problem(str(error), "where")
            return
        if not named:
            yield self._rule.problem(
                "where names no recall of the rule; a condition on the event belongs in expr",
                "where",
            )
            return
        similar = sorted(name for name in named if isinstance(spec.recall[name], SimilarRecall))
        if similar:
            yield self._rule.problem(
                f"where decides on SQL recalls; {similar[0]} is a similarity recall", "where"
            )
            return
        attributes = {"ts": "timestamp", **self.definition.types}
        self._create_view("asked_event", attributes)
        joins = ""
        for name in sorted(named):
            self._create_view(f"asked_{name}", self.definition.columns_of(name))
            joins += f" CROSS JOIN asked_{name} AS `{name}`"
        try:
            columns = validate_query(
                self._session, f"SELECT ({spec.where}) AS verdict FROM asked_event AS event{joins}"
            )
            if columns["verdict"].dataType.simpleString() != "boolean":
                raise QueryRejected("where is a condition, true or false")
        except QueryRejected as error:
            place = _locate_fragment(spec.where, error)
            yield self._rule.problem(str(error), "where", line=place[0], column=place[1])

    def find_warnings(self) -> Iterator[Problem]:
        """What is evaluated in another way than one may expect."""
        spec = self._rule.spec
        for name, recall in spec.recall.items():
            if isinstance(recall, SimilarRecall) and recall.similar.measure != "tfidf":
                contexts = recall.similar.contexts or tuple(spec.context)
                if any(spec.context[context].numeric for context in contexts):
                    message = f"{recall.similar.measure} compares numeric columns as text; tfidf, as numbers"
                    yield self._rule.problem(
                        message, "recall", name, "similar", "measure", severity="warning"
                    )

    def _build_names(self, own: dict[str, str] | None = None) -> TableBindings:
        return TableBindings(
            PhysicalTables({**self._physical_names, **(own or {})}),
            PhysicalTables(self._physical_names),
            _PENDING_VIEW,
        )

    def _validate(self, name: str, sql: str, written: str) -> None:
        self._add_result_columns(name, self._validated_columns(sql, written))

    def _validated_columns(self, sql: str, written: str) -> dict[str, str]:
        """The columns of a lifted query; what is wrong is told at its place in what was written."""
        try:
            columns = validate_query(self._session, sql, internal=True)
        except QueryRejected as error:
            line, column = _locate_fragment(written, error)
            raise QueryRejected(_restore_event_names(error.message), line, column) from error
        found = {
            f.name: f.dataType.simpleString() for f in columns.fields if f.name != sql_names.EID
        }
        if len(found) < len(columns.fields) - 1:
            raise QueryRejected("two columns of the result have the same name; name them with AS")
        return found

    def _add_result_columns(self, name: str, columns: dict[str, str]) -> None:
        self.definition = replace(
            self.definition, result_columns={**self.definition.result_columns, name: columns}
        )

    def _create_view(self, name: str, columns: Mapping[str, str]) -> None:
        ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        self._session.createDataFrame([], ddl).createOrReplaceTempView(name)


def _locate_fragment(written: str, error: QueryRejected) -> tuple[int, int]:
    """Where the part at fault stands in what was written, as far as it can be found there."""
    word = error.fragment.replace("`", "").split(".")[-1].strip()
    found = (
        re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", written, re.IGNORECASE) if word else None
    )
    if found is None:
        return 1, 1
    before = written[: found.start()]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _restore_event_names(message: str) -> str:
    """Without the names that only the rewriting knows."""
    return re.sub(r"`_event_(\w+)`", r"`event.\1`", message)
