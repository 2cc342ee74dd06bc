"""A rule as it is run: with what its check found out, free of the file it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from archiver.times import span
from moirae.rules.bind import expr_of_absence
from moirae.rules.ruleset import Rule
from moirae.rules.shape import Shape, Tables, shape

# An absence is looked for at this share of its length, so that long silences cost no more than short ones.
_ABSENCE_STEPS = 20
_SECOND = 1_000_000


@dataclass(frozen=True)
class Definition:
    """A rule as checked and applied.

    `columns`: the attributes that its query yields, in order, without `ts`; `key`, `id`: those of them that make
    the fingerprint and the identity, defaults filled in.
    """

    rule: Rule
    columns: tuple[str, ...]
    key: tuple[str, ...]
    id: tuple[str, ...]

    @property
    def name(self) -> str:
        """`<group>/<alert>`."""
        return self.rule.id

    @property
    def version(self) -> str:
        """Changes exactly when the rule's events or their contexts may."""
        return self.rule.version

    def to_json(self) -> dict[str, Any]:
        """As stored."""
        return {"rule": self.rule.to_json(), "columns": self.columns, "key": self.key, "id": self.id}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Definition":
        """From what was stored."""
        lists = {name: tuple(stored[name]) for name in ("columns", "key", "id")}
        return cls(rule=Rule.from_json(stored["rule"]), **lists)


def tables_of(rule: Rule, streams: Mapping[str, str], relations: frozenset[str]) -> Tables:
    """What a rule may name: declared streams (with time column) and relations, and its group's derived streams."""
    return Tables(streams, relations, {derived.stream: derived.expr for derived in rule.derived})


def event_sql(rule: Rule, tables: Tables) -> str:
    """The event query. Watching for absence is a query too."""
    if rule.spec.expr is not None:
        return rule.spec.expr
    assert rule.spec.stream is not None and rule.spec.absent is not None and rule.spec.key is not None
    time = tables.streams.get(rule.spec.stream, "ts")
    return expr_of_absence(rule.spec.stream, time, rule.spec.key, rule.spec.absent.total_seconds())


def event_shape(rule: Rule, tables: Tables) -> Shape:
    """How the event query is judged piece by piece. Raises `moirae.rules.shape.Unsupported`."""
    if rule.spec.expr is not None:
        found = shape(rule.spec.expr, tables)
    else:
        assert rule.spec.absent is not None
        watched = shape(
            f"SELECT `{tables.streams.get(rule.spec.stream or '', 'ts')}` AS ts FROM {rule.spec.stream}", tables
        )
        gap = span(rule.spec.absent)
        period = max(gap // _ABSENCE_STEPS, _SECOND)
        found = replace(watched, reach=watched.reach + gap, period=period, offset=0)
    return replace(found, lag=found.lag + span(rule.query_offset))
