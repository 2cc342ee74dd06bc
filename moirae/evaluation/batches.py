"""Rules of one shape as one query: which rules differ in constants only, and those constants as a
table. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from archiver.delta import ARROW_TYPES
from moirae.evaluation.plan import (
    ActiveRule,
    bind_event_query,
    build_batch_branch,
    build_branches,
    view_name,
)
from recall.errors import NotPlain
from recall.query.plain import DuckDBDialect, PlainQuery, SparkDialect, to_plain

# Plans of sets of rules that are remembered: which rules are judged together changes from batch to
# batch.
_MAX_PLANS = 64

ColumnsByStream = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class RuleBatch:
    """Rules that are judged by one query; `members`: their places in the set of rules, as in
    `constants.rule`.
    """

    number: int
    rule_indexes: tuple[int, ...]
    duckdb_query: PlainQuery
    spark_query: PlainQuery
    constants: pa.Table

    @property
    def constants_table(self) -> str:
        """The name of the table of constants."""
        return f"constants_{self.number}"


@dataclass(frozen=True)
class RuleBatches:
    """A set of rules: those of a plain shape in groups, and the places of the rest."""

    batches: tuple[RuleBatch, ...]
    unbatched: tuple[int, ...]


class RuleBatcher:
    """Finds what rules share, and remembers it. `columns`: those of each stream, with types."""

    def __init__(self, columns: ColumnsByStream) -> None:
        self._columns = {view_name(stream): kinds for stream, kinds in columns.items()}
        self._plain_queries: dict[tuple[str, str], tuple[PlainQuery, PlainQuery] | None] = {}
        self._queries: dict[tuple[str, str], exp.Query] = {}
        self._batches_by_rules: dict[tuple[ActiveRule, ...], RuleBatches] = {}
        self._last_number = 0

    def batch(self, rules: Sequence[ActiveRule]) -> RuleBatches:
        """What these rules share."""
        key = tuple(rules)
        found = self._batches_by_rules.pop(key, None) or self._build_batches(rules)
        self._batches_by_rules[key] = found
        if len(self._batches_by_rules) > _MAX_PLANS:
            del self._batches_by_rules[next(iter(self._batches_by_rules))]
        return found

    def remove_inactive(self, active_rules: Sequence[ActiveRule]) -> None:
        """Other rules run than before."""
        keys = {rule.key for rule in active_rules}
        self._plain_queries = {
            key: value for key, value in self._plain_queries.items() if key in keys
        }
        self._queries = {key: value for key, value in self._queries.items() if key in keys}
        self._batches_by_rules.clear()

    def _build_batches(self, rules: Sequence[ActiveRule]) -> RuleBatches:
        groups: dict[PlainQuery, list[tuple[int, PlainQuery, PlainQuery]]] = {}
        rest: list[int] = []
        for index, rule in enumerate(rules):
            both = self._plain_query(rule)
            if both is None:
                rest.append(index)
            else:
                groups.setdefault(both[0], []).append((index, *both))
        return RuleBatches(
            tuple(self._build_batch(members) for members in groups.values()), tuple(rest)
        )

    def _build_batch(self, members: Sequence[tuple[int, PlainQuery, PlainQuery]]) -> RuleBatch:
        self._last_number += 1
        _, duck, spark = members[0]
        columns = {"rule": pa.array([index for index, *_ in members], pa.int32())}
        for number, kind in enumerate(duck.constant_types):
            values = [member.constants[number] for _, member, _ in members]
            columns[f"p{number}"] = pa.array(values, ARROW_TYPES[kind])
        return RuleBatch(
            self._last_number, tuple(index for index, *_ in members), duck, spark, pa.table(columns)
        )

    def build_statement(self, rules: Sequence[ActiveRule], batches: RuleBatches) -> str:
        """One statement of Spark for all of them. A rule that shares its shape with no other is
        written as it is.
        """
        alone = [
            *batches.unbatched,
            *(group.rule_indexes[0] for group in batches.batches if len(group.rule_indexes) == 1),
        ]
        parts = build_branches(
            [(index, rules[index], self._event_query(rules[index])) for index in sorted(alone)]
        )
        for group in batches.batches:
            if len(group.rule_indexes) > 1:
                parts.append(
                    build_batch_branch(
                        group.spark_query.sql(group.constants_table), group.spark_query.output_names
                    )
                )
        return " UNION ALL ".join(parts)

    def _event_query(self, rule: ActiveRule) -> exp.Query:
        key = rule.key
        if key not in self._queries:
            self._queries[key] = bind_event_query(rule)
        return self._queries[key]

    def _plain_query(self, rule: ActiveRule) -> tuple[PlainQuery, PlainQuery] | None:
        key = rule.key
        if key not in self._plain_queries:
            try:
                self._plain_queries[key] = self._translate(rule)
                del self._queries[key]  # a tree of objects, hardly ever needed again
            except NotPlain:
                self._plain_queries[key] = None
        return self._plain_queries[key]

    def explain_not_plain(self, rule: ActiveRule) -> str | None:
        """Why a rule is not plain; None for one that is."""
        try:
            self._translate(rule)
        except NotPlain as error:
            return f"not plain: {error}"
        return None

    def _translate(self, rule: ActiveRule) -> tuple[PlainQuery, PlainQuery]:
        """A rule's event query in the words of both engines. Raises `NotPlain`."""
        query, types = self._event_query(rule), rule.definition.types
        return to_plain(query, self._columns, types, DuckDBDialect()), to_plain(
            query, self._columns, types, SparkDialect()
        )
