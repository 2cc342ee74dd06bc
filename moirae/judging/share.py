"""Rules of one shape as one query: which rules differ in constants only, and those constants as a table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from archiver.schema import ARROW_TYPES
from moirae.judging.plan import Running, bound, branches, shared_branch, view
from recall.query.plain import DuckWords, NotPlain, Plain, SparkWords, plain

# Plans of sets of rules that are remembered: which rules are judged together changes from batch to batch.
_REMEMBERED = 64

Columns = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Shared:
    """Rules that are judged by one query; `members`: their places in the set of rules, as in `constants.rule`."""

    number: int
    members: tuple[int, ...]
    duck: Plain
    spark: Plain
    constants: pa.Table

    @property
    def table(self) -> str:
        """The name of the table of constants."""
        return f"constants_{self.number}"


@dataclass(frozen=True)
class Shares:
    """A set of rules: those of a plain shape in groups, and the places of the rest."""

    groups: tuple[Shared, ...]
    rest: tuple[int, ...]


class Sharing:
    """Finds what rules share, and remembers it. `columns`: those of each stream, with types."""

    def __init__(self, columns: Columns) -> None:
        self._columns = {view(stream): kinds for stream, kinds in columns.items()}
        self._plain: dict[tuple[str, str], tuple[Plain, Plain] | None] = {}
        self._queries: dict[tuple[str, str], exp.Query] = {}
        self._shares: dict[tuple[Running, ...], Shares] = {}
        self._numbers = 0

    def of(self, rules: Sequence[Running]) -> Shares:
        """What these rules share."""
        key = tuple(rules)
        found = self._shares.pop(key, None) or self._share(rules)
        self._shares[key] = found
        if len(self._shares) > _REMEMBERED:
            del self._shares[next(iter(self._shares))]
        return found

    def forget(self, running: Sequence[Running]) -> None:
        """Other rules run than before."""
        keys = {rule.key for rule in running}
        self._plain = {key: value for key, value in self._plain.items() if key in keys}
        self._queries = {key: value for key, value in self._queries.items() if key in keys}
        self._shares.clear()

    def _share(self, rules: Sequence[Running]) -> Shares:
        groups: dict[Plain, list[tuple[int, Plain, Plain]]] = {}
        rest: list[int] = []
        for index, rule in enumerate(rules):
            both = self._written(rule)
            if both is None:
                rest.append(index)
            else:
                groups.setdefault(both[0], []).append((index, *both))
        return Shares(tuple(self._group(members) for members in groups.values()), tuple(rest))

    def _group(self, members: Sequence[tuple[int, Plain, Plain]]) -> Shared:
        self._numbers += 1
        _, duck, spark = members[0]
        columns = {"rule": pa.array([index for index, *_ in members], pa.int32())}
        for number, kind in enumerate(duck.kinds):
            values = [member.constants[number] for _, member, _ in members]
            columns[f"p{number}"] = pa.array(values, ARROW_TYPES[kind])
        return Shared(self._numbers, tuple(index for index, *_ in members), duck, spark, pa.table(columns))

    def statement(self, rules: Sequence[Running], shares: Shares) -> str:
        """One statement of Spark for all of them. A rule that shares its shape with no other is written as it is."""
        alone = [*shares.rest, *(group.members[0] for group in shares.groups if len(group.members) == 1)]
        parts = branches([(index, rules[index], self._query(rules[index])) for index in sorted(alone)])
        for group in shares.groups:
            if len(group.members) > 1:
                parts.append(shared_branch(group.spark.sql(group.table), group.spark.names))
        return " UNION ALL ".join(parts)

    def _query(self, rule: Running) -> exp.Query:
        key = rule.key
        if key not in self._queries:
            self._queries[key] = bound(rule)
        return self._queries[key]

    def _written(self, rule: Running) -> tuple[Plain, Plain] | None:
        key = rule.key
        if key not in self._plain:
            try:
                self._plain[key] = self._write(rule)
                del self._queries[key]  # a tree of objects, hardly ever needed again
            except NotPlain:
                self._plain[key] = None
        return self._plain[key]

    def reason(self, rule: Running) -> str | None:
        """Why a rule is not plain; None for one that is."""
        try:
            self._write(rule)
        except NotPlain as error:
            return f"not plain: {error}"
        return None

    def _write(self, rule: Running) -> tuple[Plain, Plain]:
        """A rule's event query in the words of both engines. Raises `NotPlain`."""
        query, types = self._query(rule), rule.definition.types
        return plain(query, self._columns, types, DuckWords()), plain(query, self._columns, types, SparkWords())
