"""Batches of rules whose queries differ only in constants: one query over a table of constants.

No I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from archiver.delta import ARROW_TYPES
from moirae.evaluation.plan import ActiveRule, RuleVersion, input_view, relation_view
from moirae.evaluation.shared_sources import SharedSources
from moirae.evaluation.statements import NumberedQuery, build_batch_branch, build_branches
from recall.engines import LruCache, Statement
from recall.errors import SparkRequired
from recall.query import sources_of, sql_names
from recall.query.plain import DuckDBDialect, PlainQuery, SparkDialect, to_plain

# Which rules are evaluated together varies from one batch of rows to the next.
_MAX_RULE_SETS = 64  # sets of rules whose batches are cached

ColumnsByStream = Mapping[str, Mapping[str, str]]  # types by column, by stream
ColumnsByRelation = Mapping[str, Mapping[str, str]]  # types by column, by relation


class _PlainQueries(NamedTuple):
    """A rule's event query for each engine.

    `source`: the subquery that it reads, as written; None if it reads a stream.
    """

    duckdb_query: PlainQuery
    spark_query: PlainQuery
    source: exp.Subquery | None


@dataclass(frozen=True)
class RuleBatch:
    """Rules that are evaluated by one query.

    `rule_indexes`: positions in the sequence of rules from which the batch was built, and
    `rule_names` their names. `constants`: a row for each rule, with its position in the column
    `rule`. `source`: the subquery that the first rule reads; None if it reads a stream.
    """

    number: int
    rule_indexes: tuple[int, ...]
    rule_names: tuple[str, ...]
    duckdb_query: PlainQuery
    spark_query: PlainQuery
    source: exp.Subquery | None
    constants: pa.Table

    @property
    def constants_table(self) -> str:
        """The name under which the constants are registered."""
        return f"constants_{self.number}"


@dataclass(frozen=True)
class RuleBatches:
    """A sequence of rules: batches of plain rules, and the positions of rules that are not."""

    batches: tuple[RuleBatch, ...]
    unbatched: tuple[int, ...]


class RuleBatcher:
    """Groups rules into batches.

    Caches the batches and statements of rule sets and the queries of rules.
    """

    def __init__(
        self, columns: ColumnsByStream, relations: ColumnsByRelation | None = None
    ) -> None:
        """`columns`: the declared columns of streams; `relations`: of relations."""
        self._columns = {input_view(stream): types for stream, types in columns.items()}
        self._relations: dict[str, Mapping[str, str]] = {}
        for relation, types in (relations or {}).items():
            self._relations[relation_view(relation)] = {**types, **sql_names.VALIDITY_TYPES}
        self._plain_queries: dict[RuleVersion, _PlainQueries | None] = {}
        self._event_queries: dict[RuleVersion, exp.Query] = {}
        self._batches_by_rules: LruCache[tuple[ActiveRule, ...], RuleBatches]
        self._batches_by_rules = LruCache(_MAX_RULE_SETS)
        self._statements_by_rules: LruCache[tuple[ActiveRule, ...], Statement]
        self._statements_by_rules = LruCache(_MAX_RULE_SETS)
        # Derived streams that many rules read, by their SQL: one syntax tree for all of them.
        self._sources: dict[str, exp.Subquery] = {}
        self._last_number = 0

    def add_streams(self, columns: ColumnsByStream) -> None:
        """Add streams with their columns."""
        self._columns |= {input_view(stream): types for stream, types in columns.items()}

    def batch(self, rules: Sequence[ActiveRule]) -> RuleBatches:
        """The batches of these rules."""
        key = tuple(rules)
        return self._batches_by_rules.get_or_create(key, lambda: self._build_batches(key))

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop cached queries of rules that are no longer active, and all that of rule sets."""
        active_versions = {rule.rule_version for rule in active_rules}
        for inactive in self._plain_queries.keys() - active_versions:
            del self._plain_queries[inactive]
        for inactive in self._event_queries.keys() - active_versions:
            del self._event_queries[inactive]
        self._batches_by_rules.clear()
        self._statements_by_rules.clear()
        self._sources.clear()

    def _build_batches(self, rules: Sequence[ActiveRule]) -> RuleBatches:
        members_by_query: dict[PlainQuery, list[tuple[int, _PlainQueries]]] = {}
        unbatched: list[int] = []
        for index, rule in enumerate(rules):
            queries = self._plain_queries_of(rule)
            if queries is None:
                unbatched.append(index)
            else:
                members_by_query.setdefault(queries.duckdb_query, []).append((index, queries))
        batches: list[RuleBatch] = []
        for members in members_by_query.values():
            batches.append(self._build_batch(rules, members))
        return RuleBatches(tuple(batches), tuple(unbatched))

    def _build_batch(
        self, rules: Sequence[ActiveRule], members: Sequence[tuple[int, _PlainQueries]]
    ) -> RuleBatch:
        self._last_number += 1
        indexes = tuple(index for index, _ in members)
        _, first_queries = members[0]
        constants = {"rule": pa.array(indexes, pa.int32())}
        for number, constant_type in enumerate(first_queries.duckdb_query.constant_types):
            values = [queries.duckdb_query.constants[number] for _, queries in members]
            constants[f"p{number}"] = pa.array(values, ARROW_TYPES[constant_type])
        return RuleBatch(
            number=self._last_number,
            rule_indexes=indexes,
            rule_names=tuple(rules[index].name for index in indexes),
            duckdb_query=first_queries.duckdb_query,
            spark_query=first_queries.spark_query,
            source=first_queries.source,
            constants=pa.table(constants),
        )

    def build_statement(self, rules: Sequence[ActiveRule]) -> Statement:
        """A Spark statement for these rules; `rule` in its result is the position of the rule.

        The only rule of a batch is evaluated by its query as written.
        """
        key = tuple(rules)
        return self._statements_by_rules.get_or_create(key, lambda: self._write_statement(key))

    def _write_statement(self, rules: Sequence[ActiveRule]) -> Statement:
        batches = self.batch(rules)
        single_rules = list(batches.unbatched)
        larger_batches: list[RuleBatch] = []
        for batch in batches.batches:
            if len(batch.rule_indexes) == 1:
                single_rules.append(batch.rule_indexes[0])
            else:
                larger_batches.append(batch)
        single_rules.sort()
        sources = SharedSources()
        for index in single_rules:
            sources.add(self._event_query(rules[index]))
        for batch in larger_batches:
            if batch.source is not None:
                sources.add_source(batch.source)
        bound_queries: list[NumberedQuery] = []
        for index in single_rules:
            query = sources.rewrite(self._event_query(rules[index]))
            bound_queries.append(NumberedQuery(index, rules[index], query))
        batch_branches: list[str] = []
        constants_by_table: dict[str, pa.Table] = {}
        for batch in larger_batches:
            source = None
            if batch.source is not None:
                source = sources.rewrite_source(batch.source)
            plain_query = batch.spark_query
            sql = plain_query.sql(batch.constants_table, source)
            batch_branches.append(build_batch_branch(sql, plain_query.output_names))
            constants_by_table[batch.constants_table] = batch.constants
        text = " UNION ALL ".join(build_branches(bound_queries) + batch_branches)
        return Statement(text, constants_by_table, sources.views)

    def _event_query(self, rule: ActiveRule) -> exp.Query:
        key = rule.rule_version
        if key not in self._event_queries:
            self._event_queries[key] = rule.bind_event_query()
        return self._event_queries[key]

    def _plain_queries_of(self, rule: ActiveRule) -> _PlainQueries | None:
        """The plain queries of a rule; None if it is not plain."""
        key = rule.rule_version
        if key not in self._plain_queries:
            try:
                self._plain_queries[key] = self._translate(rule)
                del self._event_queries[key]  # a large tree that is rarely needed again
            except SparkRequired:
                self._plain_queries[key] = None
        return self._plain_queries[key]

    def take_event_query(self, rule: ActiveRule) -> exp.Query:
        """The bound event query of a rule, which is not cached any longer."""
        query = self._event_query(rule)
        del self._event_queries[rule.rule_version]
        return query

    def explain_not_plain(self, rule: ActiveRule) -> str | None:
        """Why a rule is not plain; None if it is."""
        try:
            self._translate(rule)
        except SparkRequired as error:
            return f"not plain: {error}"
        return None

    def _translate(self, rule: ActiveRule) -> _PlainQueries:
        """Raises `SparkRequired`."""
        query = self._event_query(rule)
        types = rule.types
        return _PlainQueries(
            duckdb_query=to_plain(query, self._columns, types, DuckDBDialect(), self._relations),
            spark_query=to_plain(query, self._columns, types, SparkDialect(), self._relations),
            source=self._find_source(query),
        )

    def _find_source(self, query: exp.Query) -> exp.Subquery | None:
        """The subquery that a plain query reads, in FROM or joined to a relation."""
        for source in sources_of(query):
            if isinstance(source, exp.Subquery):
                return self._sources.setdefault(source.this.sql(dialect="spark"), source.copy())
        return None
