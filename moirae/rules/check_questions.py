"""Checking what a rule asks: contexts, surroundings, recalls and its condition, through the gate. Nothing is run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from pyspark.sql import SparkSession

from moirae.errors import Problem
from moirae.rules.definition import Definition
from moirae.rules.questions import SimilarRecall, SqlRecall
from moirae.rules.requests import asks, lifted, named_in_where, scope
from moirae.settings import Settings
from recall import gate
from recall.query.bind import VALID_FROM, VALID_TO, Physical
from recall.query.lift import EID, HIGH, LOW, MOMENT, Names, attribute_column, lift
from recall.query.scans import check_scans
from recall.query.shape import Tables, Unsupported
from recall.query.split import MERGED, split
from recall.similarity.measure import MEASURES

_PENDING = "asked_pending"


def check_questions(
    session: SparkSession, settings: Settings, definition: Definition, tables: Tables
) -> tuple[Definition, list[Problem]]:
    """The definition with the columns of all answers, and what is wrong. Streams have views in the session."""
    checking = _Checking(session, settings, definition, tables)
    problems = [*checking.contexts(), *checking.recalls(), *checking.where(), *checking.warnings()]
    return checking.definition, problems


class _Checking:
    """One rule's questions. `definition` grows with what is found out."""

    def __init__(self, session: SparkSession, settings: Settings, definition: Definition, tables: Tables) -> None:
        self._session = session
        self._relations = settings.relations
        self._tables = tables
        self._rule = definition.rule
        self.definition = definition

    @cached_property
    def _physical(self) -> Mapping[str, str]:
        """The views of streams and relations by name, made when first needed: most rules ask nothing."""
        for name, relation in self._relations.items():
            valid = {VALID_FROM: "timestamp", VALID_TO: "timestamp"}
            self._view(f"asked_{name}", {**relation.columns, **valid})
        pending = {EID: "string", MOMENT: "timestamp", LOW: "timestamp", HIGH: "timestamp"}
        attributes = {attribute_column(name): kind for name, kind in self.definition.types.items()}
        self._view(_PENDING, {**pending, **attributes})
        return {**{name: name for name in self._tables.streams}, **{name: f"asked_{name}" for name in self._relations}}

    def contexts(self) -> Iterator[Problem]:
        """Contexts and surroundings."""
        for ask in asks(self.definition):
            path = ("context" if ask.compared else "surroundings", ask.name)
            try:
                check_scans(ask.query.sql, self._tables.derived)
                found = lifted(ask, self.definition, self._tables, self._names())
                if (found.used.streams | found.used.derived) and ask.query.within is None:
                    reads = ", ".join(sorted(found.used.streams | found.used.derived))
                    yield self._rule.problem(f"within is needed: the query reads the stream {reads}", *path)
                    continue
                self._judge(ask.name, found.sql, ask.query.sql)
            except (Unsupported, gate.Refusal) as error:
                yield self._rule.problem(str(error), *path, "sql", line=error.line, column=error.column)

    def recalls(self) -> Iterator[Problem]:
        """SQL recalls, piece and merge; measures of similarity recalls."""
        spec = self._rule.spec
        for name, recall in spec.recall.items():
            if isinstance(recall, SimilarRecall):
                if recall.similar.measure not in MEASURES:
                    known = ", ".join(sorted(MEASURES))
                    message = f"unknown measure {recall.similar.measure!r}; there are {known}"
                    yield self._rule.problem(message, "recall", name, "similar", "measure")
                if not spec.context:
                    yield self._rule.problem("a similarity recall compares contexts; the rule has none", "recall", name)
                continue
            try:
                self._check_sql(name, recall)
            except (Unsupported, gate.Refusal) as error:
                yield self._rule.problem(str(error), "recall", name, "sql", line=error.line, column=error.column)

    def _check_sql(self, name: str, recall: SqlRecall) -> None:
        own = {*self._rule.spec.context, *self._rule.spec.surroundings}
        for table in own:
            self._view(f"own_{table}", {EID: "string", **self.definition.columns_of(table)})
        names = self._names({table: f"own_{table}" for table in own} | {MERGED: f"asked{MERGED}"})
        check_scans(recall.sql, self._tables.derived)
        parts = split(recall.sql, self._tables)
        # The whole query first, for messages in the words of its author.
        whole = self._columns(lift(recall.sql, scope(self.definition, self._tables, own), names).sql, recall.sql)
        types: dict[str, str] = {}
        if parts.typing is not None:
            types = self._columns(lift(parts.typing, scope(self.definition, self._tables, own), names).sql, recall.sql)
            parts = split(recall.sql, self._tables, types)
        partial = self._columns(lift(parts.partial, scope(self.definition, self._tables, own), names).sql, recall.sql)
        self._view(f"asked{MERGED}", {EID: "string", **(partial if parts.rows else types)})
        found = self._columns(
            lift(parts.merge, scope(self.definition, self._tables, {*own, MERGED}), names).sql, recall.sql
        )
        if list(found) != list(whole):
            raise gate.Refusal("name each output with AS")
        self._found(name, found)
        self.definition = replace(self.definition, merged={**self.definition.merged, name: types})

    def where(self) -> Iterator[Problem]:
        """The condition, over the event and the answers of SQL recalls."""
        spec = self._rule.spec
        if spec.where is None:
            return
        try:
            named = named_in_where(self.definition)
        except Unsupported as error:
            yield self._rule.problem(str(error), "where")
            return
        if not named:
            yield self._rule.problem(
                "where names no recall of the rule; a condition on the event belongs in expr", "where"
            )
            return
        similar = sorted(name for name in named if isinstance(spec.recall[name], SimilarRecall))
        if similar:
            yield self._rule.problem(f"where decides on SQL recalls; {similar[0]} is a similarity recall", "where")
            return
        attributes = {"ts": "timestamp", **self.definition.types}
        self._view("asked_event", attributes)
        joins = ""
        for name in sorted(named):
            self._view(f"asked_{name}", self.definition.columns_of(name))
            joins += f" CROSS JOIN asked_{name} AS `{name}`"
        try:
            columns = gate.judge(self._session, f"SELECT ({spec.where}) AS verdict FROM asked_event AS event{joins}")
            if columns["verdict"].dataType.simpleString() != "boolean":
                raise gate.Refusal("where is a condition, true or false")
        except gate.Refusal as error:
            place = _place(spec.where, error)
            yield self._rule.problem(str(error), "where", line=place[0], column=place[1])

    def warnings(self) -> Iterator[Problem]:
        """What is kept with the rule but not evaluated yet."""
        spec = self._rule.spec
        if spec.then:
            yield self._rule.problem("then is kept but not evaluated yet", "then", severity="warning")
        for name, recall in spec.recall.items():
            if isinstance(recall, SimilarRecall) and recall.similar.measure != "tfidf":
                contexts = recall.similar.contexts or tuple(spec.context)
                if any(spec.context[context].numeric for context in contexts):
                    message = f"{recall.similar.measure} compares numeric columns as text; tfidf, as numbers"
                    yield self._rule.problem(message, "recall", name, "similar", "measure", severity="warning")

    def _names(self, own: dict[str, str] | None = None) -> Names:
        return Names(Physical({**self._physical, **(own or {})}), Physical(self._physical), _PENDING)

    def _judge(self, name: str, sql: str, written: str) -> None:
        self._found(name, self._columns(sql, written))

    def _columns(self, sql: str, written: str) -> dict[str, str]:
        """The columns of a lifted query; what is wrong is told at its place in what was written."""
        try:
            columns = gate.judge(self._session, sql, own=True)
        except gate.Refusal as error:
            line, column = _place(written, error)
            raise gate.Refusal(_plain(error.message), line, column) from error
        found = {f.name: f.dataType.simpleString() for f in columns.fields if f.name != EID}
        if len(found) < len(columns.fields) - 1:
            raise gate.Refusal("two columns of the result have the same name; name them with AS")
        return found

    def _found(self, name: str, columns: dict[str, str]) -> None:
        self.definition = replace(self.definition, answers={**self.definition.answers, name: columns})

    def _view(self, name: str, columns: Mapping[str, str]) -> None:
        ddl = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        self._session.createDataFrame([], ddl).createOrReplaceTempView(name)


def _place(written: str, error: gate.Refusal) -> tuple[int, int]:
    """Where the part at fault stands in what was written, as far as it can be found there."""
    word = error.fragment.replace("`", "").split(".")[-1].strip()
    found = re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", written, re.IGNORECASE) if word else None
    if found is None:
        return 1, 1
    before = written[: found.start()]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _plain(message: str) -> str:
    """Without the names that only the rewriting knows."""
    return re.sub(r"`_event_(\w+)`", r"`event.\1`", message)
