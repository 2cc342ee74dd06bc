"""Which rules are due over which slice of event time, and one statement that judges them all. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from moirae.alerts import EventRow
from moirae.rules import Definition, build_event_sql
from recall.query import PhysicalTables, Shape, Tables, bind_query


@dataclass(frozen=True, eq=False)
class ActiveRule:
    """A rule that runs: its definition, what it may name, its shape. Each is equal to itself alone."""

    definition: Definition
    tables: Tables
    shape: Shape

    @cached_property
    def name(self) -> str:
        return self.definition.name

    @property
    def key(self) -> tuple[str, str]:
        """Its name and version."""
        return self.name, self.definition.version


@dataclass(frozen=True)
class RuleCohort:
    """Rules of one shape that are settled up to the same event time (microseconds; None: not at
    all).

    They are decided about as one, so that a thousand rules cost a batch hardly more than one does.
    """

    shape: Shape
    settled_to: int | None
    rules: tuple[ActiveRule, ...]

    def select(self, predicate: Callable[[ActiveRule], bool]) -> "RuleCohort":
        """Those of the rules that are wanted."""
        rules = tuple(filter(predicate, self.rules))
        return self if len(rules) == len(self.rules) else replace(self, rules=rules)


def build_cohorts(places: Iterable[tuple[Sequence[ActiveRule], int | None]]) -> list[RuleCohort]:
    """Rules of one shape each, with how far these are settled, in as few groups as there may be."""
    groups: dict[tuple[Shape, int | None], list[Sequence[ActiveRule]]] = {}
    for rules, settled_to in places:
        if rules:
            groups.setdefault((rules[0].shape, settled_to), []).append(rules)
    return [RuleCohort(*place, concatenate_rules(members)) for place, members in groups.items()]


def advance_cohorts(
    cohorts: Iterable[RuleCohort], evaluated: Collection[str], high: int
) -> list[RuleCohort]:
    """Where rules stand once some of them, by name, are settled up to `high`."""
    places: list[tuple[Sequence[ActiveRule], int | None]] = []
    for standing in cohorts:
        on = standing.select(lambda rule: rule.name in evaluated).rules
        places.append((on, high))
        if len(on) < len(standing.rules):
            places.append(
                (
                    standing.select(lambda rule: rule.name not in evaluated).rules,
                    standing.settled_to,
                )
            )
    return build_cohorts(places)


def concatenate_rules(parts: Sequence[Sequence[ActiveRule]]) -> tuple[ActiveRule, ...]:
    """All of them, in order."""
    return tuple(parts[0]) if len(parts) == 1 else tuple(rule for part in parts for rule in part)


@dataclass(frozen=True)
class RuleSlice:
    """Rules whose rows with ts in [low, high) are judged together, from input in [input_low,
    input_high).

    Microseconds of event time; None: no bound.
    """

    rules: tuple[ActiveRule, ...]
    low: int | None
    high: int | None
    input_low: int | None
    input_high: int | None

    @property
    def streams(self) -> frozenset[str]:
        """The streams that the rules read."""
        return frozenset().union(*{rule.shape.streams for rule in self.rules})

    def select_event_rows(self, event_rows: Sequence[EventRow]) -> list[EventRow]:
        """Those in the slice of what was found in its input."""
        low, high = self.low, self.high
        return [
            f for f in event_rows if (low is None or f.ts >= low) and (high is None or f.ts < high)
        ]


def horizon(shape: Shape, watermarks: Mapping[str, int | None]) -> int | None:
    """Rows of a rule with ts before this event time are complete. None: a stream of it has not
    begun.
    """
    low: int | None = None
    for stream in shape.streams:
        mark = watermarks.get(stream)
        if mark is None:
            return None
        low = mark if low is None else min(low, mark)
    return None if low is None else low - shape.lag


def due_slices(
    cohorts: Iterable[RuleCohort], watermarks: Mapping[str, int | None]
) -> list[RuleSlice]:
    """The slices that can be settled now. Rules with the same bounds and reach share a slice, thus
    a statement.
    """
    groups: dict[tuple[int | None, int, int, int], list[Sequence[ActiveRule]]] = {}
    for standing in cohorts:
        low, shape = standing.settled_to, standing.shape
        high = horizon(shape, watermarks)
        if high is None or (low is not None and high <= low):
            continue
        if shape.closes_window(None if low is None else low + shape.lag, high + shape.lag):
            groups.setdefault((low, high, shape.reach, shape.lag), []).append(standing.rules)
    return [
        RuleSlice(
            concatenate_rules(members), low, high, None if low is None else low - reach, high + lag
        )
        for (low, high, reach, lag), members in groups.items()
    ]


def view_name(stream: str) -> str:
    """The table in which the rows of a stream stand while rules are judged."""
    return f"in_{stream}"


def bind_event_query(rule: ActiveRule) -> exp.Query:
    """The rule's event query over the tables at hand."""
    names = {name: view_name(name) for name in rule.tables.streams}
    names |= {name: f"relation_{name}" for name in rule.tables.relations}
    return bind_query(
        build_event_sql(rule.definition.rule, rule.tables), rule.tables, PhysicalTables(names)
    )


def build_branches(rules: Sequence[tuple[int, ActiveRule, exp.Query]]) -> list[str]:
    """Queries for all rules, each with its number: columns `rule` (that number), `ts`, `attributes`
    (a JSON object).

    Simple filters over one stream become arms of one projection over one scan; each of the others
    is its own.
    """
    filters: dict[str, list[str]] = {}
    made: list[str] = []
    for index, rule, query in rules:
        arm = _build_filter_arm(index, rule, query)
        if arm is None:
            made.append(_build_branch(index, rule.definition.columns, query))
        else:
            filters.setdefault(query.args["from_"].this.sql(dialect="spark"), []).append(arm)
    for source, arms in filters.items():
        found = f"explode(filter(array({', '.join(arms)}), found -> found IS NOT NULL)) AS found"
        made.append(f"SELECT found.* FROM (SELECT {found} FROM {source})")
    return made


def build_batch_branch(query: str, columns: Sequence[str]) -> str:
    """The same for rules of one shape, from what their query yields (see
    `recall.query.plain.Plain`).
    """
    row = ", ".join(f"'{name}', found.c{number}" for number, name in enumerate(columns))
    return f"SELECT found.rule, found.ts, {_to_json_sql(row)} AS attributes FROM ({query}) AS found"


def _build_branch(index: int, columns: Sequence[str], query: exp.Query) -> str:
    row = ", ".join(f"'{name}', found.`{name}`" for name in columns)
    return (
        f"SELECT {index} AS rule, CAST(found.ts AS timestamp) AS ts, {_to_json_sql(row)} AS "
        f"attributes "
        f"FROM ({query.sql(dialect='spark')}) AS found"
    )


def _build_filter_arm(index: int, rule: ActiveRule, query: exp.Query) -> str | None:
    """`if(condition, row, NULL)` where the query is a filter over the columns of one stream, else
    None.
    """
    if not isinstance(query, exp.Select) or set(_used_clauses(query)) - {
        "expressions",
        "from_",
        "where",
    }:
        return None
    if not isinstance(query.args["from_"].this, exp.Table):
        return None
    outputs = {
        p.alias_or_name.lower(): (p.this if isinstance(p, exp.Alias) else p)
        for p in query.expressions
    }
    if set(outputs) != {name.lower() for name in (*rule.definition.columns, "ts")}:
        return None  # a star, or names that only Spark resolves
    made = {p.alias.lower() for p in query.expressions if isinstance(p, exp.Alias)}
    for part in outputs.values():
        columns = {c.name.lower() for c in part.find_all(exp.Column)}
        if columns & made and not (isinstance(part, exp.Column)):
            return None  # may mean the column made beside it
    row = ", ".join(
        f"'{name}', {outputs[name.lower()].sql(dialect='spark')}"
        for name in rule.definition.columns
    )
    where = query.args.get("where")
    condition = where.this.sql(dialect="spark") if where else "true"
    time = outputs["ts"].sql(dialect="spark")
    return (
        f"if({condition}, named_struct('rule', {index}, 'ts', CAST({time} AS timestamp), "
        f"'attributes', {_to_json_sql(row)}), NULL)"
    )


def _used_clauses(query: exp.Select) -> list[str]:
    return [name for name, value in query.args.items() if value]


def _to_json_sql(row: str) -> str:
    options = (
        "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\")"
    )
    return f"to_json(named_struct({row}), {options})" if row else "'{}'"
