"""A rule as it is run: with what its check found out, free of the file it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from archiver.times import duration_to_micros
from moirae.rules.rule_set import Rule
from recall.query import Shape, Tables, infer_shape

# An absence is looked for at this share of its length, so that long silences cost no more than short ones.
_ABSENCE_STEPS = 20
_MICROS_PER_SECOND = 1_000_000


@dataclass(frozen=True)
class Definition:
    """A rule as checked and applied.

    `types`: the attributes that its query yields, in order, without `ts`, with their Spark types; `key`, `id`: those of
    them that make the fingerprint and the identity, defaults filled in; `answers`: the columns of its contexts,
    surroundings and recalls, by their names, with their types; `merged`: those of what its SQL recalls are merged from.
    """

    rule: Rule
    types: Mapping[str, str]
    key: tuple[str, ...]
    id: tuple[str, ...]
    result_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    merged_types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes, in order."""
        return tuple(self.types)

    def columns_of(self, name: str) -> Mapping[str, str]:
        """The columns of a context, surrounding or recall, as a table. The values of a context are texts: terms."""
        columns = self.result_columns.get(name, {})
        return dict.fromkeys(columns, "string") if name in self.rule.spec.context else columns

    @cached_property
    def name(self) -> str:
        """`<group>/<alert>`."""
        return self.rule.id

    @cached_property
    def has_questions(self) -> bool:
        """Whether anything is asked about its events."""
        spec = self.rule.spec
        return bool(spec.context or spec.surroundings or spec.recall)

    @cached_property
    def version(self) -> str:
        """Changes exactly when the rule's events or their contexts may."""
        return self.rule.version

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        stored = {"types": list(self.types.items()), "key": self.key, "id": self.id}
        answers = {name: list(columns.items()) for name, columns in self.result_columns.items()}
        merged = {name: dict(types) for name, types in self.merged_types.items()}
        return {"rule": self.rule.to_json(), "answers": answers, "merged": merged, **stored}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Definition":
        """From what was stored."""
        answers = {name: dict(columns) for name, columns in stored["answers"].items()}
        key, identity = tuple(stored["key"]), tuple(stored["id"])
        return cls(
            Rule.from_json(stored["rule"]),
            dict(stored["types"]),
            key,
            identity,
            answers,
            stored.get("merged", {}),
        )


def rule_tables(rule: Rule, streams: Mapping[str, str], relations: frozenset[str]) -> Tables:
    """What a rule may name: declared streams (with time column) and relations, and its group's derived streams."""
    return Tables(streams, relations, {derived.stream: derived.expr for derived in rule.derived})


def event_sql(rule: Rule, tables: Tables) -> str:
    """The event query. Watching for absence is a query too."""
    if rule.spec.expr is not None:
        return rule.spec.expr
    assert (
        rule.spec.stream is not None and rule.spec.absent is not None and rule.spec.key is not None
    )
    time = tables.streams.get(rule.spec.stream, "ts")
    return _absence_sql(rule.spec.stream, time, rule.spec.key, rule.spec.absent.total_seconds())


def event_shape(rule: Rule, tables: Tables) -> Shape:
    """How the event query is judged piece by piece. Raises `recall.query.shape.Unsupported`."""
    if rule.spec.expr is not None:
        found = infer_shape(rule.spec.expr, tables)
    else:
        assert rule.spec.absent is not None
        watched = infer_shape(
            f"SELECT `{tables.streams.get(rule.spec.stream or '', 'ts')}` AS ts FROM {rule.spec.stream}",
            tables,
        )
        gap = duration_to_micros(rule.spec.absent)
        period = max(gap // _ABSENCE_STEPS, _MICROS_PER_SECOND)
        found = replace(watched, reach=watched.reach + gap, period=period, offset=0)
    return replace(found, lag=found.lag + duration_to_micros(rule.query_offset))


def _absence_sql(stream: str, time: str, key: tuple[str, ...], seconds: float) -> str:
    """SQL that makes a row for each key value and time since which it has been silent for some seconds."""
    keys = ", ".join(f"`{name}`" for name in key)
    gap = f"INTERVAL '{seconds}' SECOND"
    return (
        f"SELECT {keys}, `{time}` + {gap} AS ts FROM (SELECT {keys}, `{time}`, "
        f"lead(`{time}`) OVER (PARTITION BY {keys} ORDER BY `{time}`) AS _next FROM {stream}) "
        f"WHERE _next IS NULL OR _next > `{time}` + {gap}"
    )
