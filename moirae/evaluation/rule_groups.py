"""Rules that are evaluated by one query, whose constants are a table.

No I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from archiver.delta import ARROW_TYPES
from moirae.evaluation.plan import ActiveRule, RuleVersion, input_view, relation_view
from moirae.evaluation.shared_sources import SharedSources
from moirae.evaluation.statements import (
    NumberedQuery,
    RowVerdict,
    build_batch_branch,
    build_branches,
    build_filter_query,
    find_verdict,
)
from recall.engines import LruCache, Statement
from recall.errors import SparkRequired
from recall.query import sources_of, sql_names
from recall.query.plain import DuckDBDialect, PlainQuery, SparkDialect, to_plain

# Which rules are evaluated together varies from one batch of rows to the next.
_MAX_RULE_SETS = 64  # sets of rules whose groups are cached

ColumnsByStream = Mapping[str, Mapping[str, str]]  # types by column, by stream
ColumnsByRelation = Mapping[str, Mapping[str, str]]  # types by column, by relation


class _PlainQueries(NamedTuple):
    """A rule's event query for each engine.

    `source`: the subquery that it reads, as written; None if it reads a stream.
    """

    duckdb_query: PlainQuery
    spark_query: PlainQuery
    source: exp.Subquery | None


@cache
def _no_constants() -> pa.Table:
    """Of one rule. Arrays load pandas, which a process needs only once it evaluates rules."""
    return pa.table({"rule": pa.array([0], pa.int32())})


@dataclass(frozen=True, eq=False)
class RuleGroup:
    """Rules that are evaluated by one query. Compared by identity.

    `query`: in DuckDB's SQL; None if the only rule of the group is not plain. `spark_query`: the
    same in Spark's. `source`: the subquery that the first rule reads; None if it reads a stream.
    `constants`: a row for each rule, with its position in `rules` in the column `rule`.
    """

    rules: tuple[ActiveRule, ...]
    query: PlainQuery | None = None
    spark_query: PlainQuery | None = None
    source: exp.Subquery | None = None
    constants: pa.Table = field(default_factory=_no_constants)

    @property
    def plain_query(self) -> PlainQuery:
        """`query` of a group that has one."""
        assert self.query is not None
        return self.query

    @property
    def streams(self) -> frozenset[str]:
        """The streams that the rules read."""
        return self.rules[0].shape.streams

    @property
    def rule_names(self) -> list[str]:
        """The names of the rules."""
        return [rule.name for rule in self.rules]

    def select(self, start: int, end: int) -> "RuleGroup":
        """The group of some of its rules, by position."""
        return RuleGroup(
            rules=self.rules[start:end],
            query=self.query,
            spark_query=self.spark_query,
            source=self.source,
            constants=number_rules(self.constants.slice(start, end - start), 0),
        )


def number_rules(constants: pa.Table, first: int) -> pa.Table:
    """A table of constants whose column `rule` counts from `first`."""
    numbers = pa.array(range(first, first + len(constants)), pa.int32())
    return constants.set_column(0, "rule", numbers)


class RuleGrouper:
    """Groups rules whose queries differ only in constants.

    Caches the groups and statements of rule sets and the queries of rules.
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
        self._groups_by_rules: LruCache[tuple[ActiveRule, ...], tuple[RuleGroup, ...]]
        self._groups_by_rules = LruCache(_MAX_RULE_SETS)
        self._statements_by_groups: LruCache[tuple[RuleGroup, ...], Statement]
        self._statements_by_groups = LruCache(_MAX_RULE_SETS)
        # Derived streams that many rules read, by their SQL: one syntax tree for all of them.
        self._sources: dict[str, exp.Subquery] = {}

    def add_streams(self, columns: ColumnsByStream) -> None:
        """Add streams with their columns."""
        self._columns |= {input_view(stream): types for stream, types in columns.items()}

    def group(self, rules: Sequence[ActiveRule]) -> tuple[RuleGroup, ...]:
        """The groups of these rules; each rule that is not plain is a group of its own."""
        key = tuple(rules)
        return self._groups_by_rules.get_or_create(key, lambda: self._build_groups(key))

    def translate_rule(self, rule: ActiveRule) -> None:
        """Translate the query of a rule, if it is plain."""
        self._plain_queries_of(rule)

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Drop cached queries of rules that are no longer active, and all that of rule sets."""
        active_versions = {rule.rule_version for rule in active_rules}
        for inactive in self._plain_queries.keys() - active_versions:
            del self._plain_queries[inactive]
        for inactive in self._event_queries.keys() - active_versions:
            del self._event_queries[inactive]
        self._groups_by_rules.clear()
        self._statements_by_groups.clear()
        self._sources.clear()

    def _build_groups(self, rules: Sequence[ActiveRule]) -> tuple[RuleGroup, ...]:
        members_by_query: dict[PlainQuery, list[tuple[ActiveRule, _PlainQueries]]] = {}
        single_groups: list[RuleGroup] = []
        for rule in rules:
            queries = self._plain_queries_of(rule)
            if queries is None:
                single_groups.append(RuleGroup((rule,)))
            else:
                members_by_query.setdefault(queries.duckdb_query, []).append((rule, queries))
        return (*map(_build_group, members_by_query.values()), *single_groups)

    def build_statement(self, groups: Sequence[RuleGroup]) -> Statement:
        """A Spark statement for some groups.

        `rule` in its result is the position of the rule among those of all the groups. The only
        rule of a group is evaluated by its query as written.
        """
        key = tuple(groups)
        return self._statements_by_groups.get_or_create(key, lambda: self._write_statement(key))

    def _write_statement(self, groups: Sequence[RuleGroup]) -> Statement:
        sources = SharedSources()
        single_rules: list[tuple[int, ActiveRule]] = []
        shared_groups: list[tuple[int, RuleGroup]] = []
        position = 0
        for group in groups:
            if len(group.rules) == 1:
                single_rules.append((position, group.rules[0]))
                sources.add(self._event_query(group.rules[0]))
            else:
                shared_groups.append((position, group))
                if group.source is not None:
                    sources.add_source(group.source)
            position += len(group.rules)
        bound_queries: list[NumberedQuery] = []
        for number, rule in single_rules:
            query = sources.rewrite(self._event_query(rule))
            bound_queries.append(NumberedQuery(number, rule, query))
        branches = build_branches(bound_queries)
        tables: dict[str, pa.Table] = {}
        for number, group in shared_groups:
            source = None if group.source is None else sources.rewrite_source(group.source)
            plain_query = group.spark_query
            assert plain_query is not None
            table = f"constants_{number}"
            tables[table] = number_rules(group.constants, number)
            text = plain_query.sql(table, source)
            branches.append(build_batch_branch(text, plain_query.output_names))
        return Statement(" UNION ALL ".join(branches), tables, sources.views)

    def find_verdict(self, group: RuleGroup) -> RowVerdict | None:
        """What the only rule of a group evaluates for each row of its only stream."""
        if len(group.rules) != 1 or len(group.streams) != 1:
            return None
        (rule,), (stream,) = group.rules, group.streams
        return find_verdict(rule, self._event_query(rule), input_view(stream))

    def build_filter_query(self, group: RuleGroup) -> str | None:
        """See `statements.build_filter_query`: for the only rule of a group."""
        (rule,) = group.rules
        return build_filter_query(rule, self._event_query(rule))

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


def _build_group(members: Sequence[tuple[ActiveRule, _PlainQueries]]) -> RuleGroup:
    _, first = members[0]
    constants = {"rule": pa.array(range(len(members)), pa.int32())}
    for number, constant_type in enumerate(first.duckdb_query.constant_types):
        values = [queries.duckdb_query.constants[number] for _, queries in members]
        constants[f"p{number}"] = pa.array(values, ARROW_TYPES[constant_type])
    return RuleGroup(
        rules=tuple(rule for rule, _ in members),
        query=first.duckdb_query,
        spark_query=first.spark_query,
        source=first.source,
        constants=pa.table(constants),
    )
