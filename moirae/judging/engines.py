"""Who judges: this process what is plain, all rules of one shape by one query; Spark the others, and whatever fails
here, in one statement. Where that fails, each half of its rules is judged again, down to the one at fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from archiver.admission import column
from moirae.alerts.event import Found
from moirae.judging.guard import Guard, TookTooLong
from moirae.judging.limits import culprit
from moirae.judging.local import LocalJudge, Places
from moirae.judging.panes import Panes
from moirae.judging.plan import Running, Slice, view
from moirae.judging.rows import Rows
from moirae.judging.share import Columns, Shares, Sharing

# What some of the rules of a query find, by their places.
_Finds = dict[int, list[Found]]


@dataclass(frozen=True)
class Answers:
    """What rules find: those that find anything. `failed`: the names of those that could not be judged."""

    finds: list[tuple[Running, list[Found]]]
    failed: frozenset[str] = frozenset()


class Engines:
    """What rules find in rows, by whichever engine; who fails is charged (see `moirae.judging.guard`)."""

    def __init__(self, spark: SparkSession, rows: Rows, guard: Guard, columns: Columns, local: bool) -> None:
        """`columns`: of each stream, with types. `local`: whether plain rules may be judged in this process."""
        self._spark = spark
        self._rows = rows
        self._guard = guard
        self._sharing = Sharing(columns)
        self._local = LocalJudge() if local else None
        self._panes = Panes(self._local, rows) if self._local is not None else None

    def forget(self, running: Sequence[Running]) -> None:
        """Other rules run than before."""
        self._sharing.forget(running)
        if self._local is not None:
            self._local.forget()
        if self._panes is not None:
            self._panes.forget(running)

    def judged(self, part: Slice) -> Answers:
        """What the rules of a slice find in it."""
        merged, left = self._by_panes(part)
        whole = self._whole(replace(part, rules=left))
        found = [(rule, part.of(finds)) for rule, finds in [*merged, *whole.finds]]
        return Answers([(rule, finds) for rule, finds in found if finds], whole.failed)

    def _by_panes(self, part: Slice) -> tuple[list[tuple[Running, list[Found]]], tuple[Running, ...]]:
        """What rules over sliding windows find, and the other rules."""
        answers = self._panes.found(part, self._sharing.of(part.rules)) if self._panes is not None else []
        if not answers:
            return [], part.rules
        found: _Finds = {}
        for _, finds in answers:
            _add(found, finds)
        served = {place for group, _ in answers for place in group.members}
        left = tuple(rule for place, rule in enumerate(part.rules) if place not in served)
        return [(part.rules[place], finds) for place, finds in found.items()], left

    def _whole(self, part: Slice) -> Answers:
        """The others, over all rows of the slice's input."""
        if not part.rules:
            return Answers([])
        streams = part.streams
        inputs = {name: self._rows.archived(name, part.input_low, part.input_high) for name in streams}
        count = sum(self._rows.count(name, part.input_low, part.input_high) for name in streams)
        return self.found(part.rules, inputs, count)

    def found(self, rules: Sequence[Running], inputs: Mapping[str, pa.Table | DataFrame], count: int) -> Answers:
        """What each rule finds in about so many rows."""
        groups = self._guard.apart(rules, lambda rule: rule.rule)
        answers = [self._together(group, inputs, count) for group in groups]
        finds = [pair for answer in answers for pair in answer.finds]
        return Answers(finds, frozenset().union(*(answer.failed for answer in answers)))

    def _together(self, rules: Sequence[Running], inputs: Mapping[str, pa.Table | DataFrame], count: int) -> Answers:
        found: _Finds = {}
        left = self._here(rules, inputs, found)
        failed: set[int] = set()
        if left:
            for name, rows in inputs.items():
                frame = self._rows.frame(rows) if isinstance(rows, pa.Table) else rows
                frame.createOrReplaceTempView(view(name))
            failed = self._by_spark(rules, left, found, inputs, count)
        finds = [(rules[place], found[place]) for place in sorted(found) if place not in failed]
        return Answers(finds, frozenset(rules[place].rule for place in failed))

    def _here(
        self, rules: Sequence[Running], inputs: Mapping[str, pa.Table | DataFrame], found: _Finds
    ) -> Sequence[int]:
        """Fills in what this process can judge by itself; returns the places of the other rules."""
        tables = {name: rows for name, rows in inputs.items() if isinstance(rows, pa.Table)}
        if self._local is None:
            return range(len(rules))
        shares = self._sharing.of(rules)
        held = {view(name) for name in tables}
        groups = [group for group in shares.groups if group.duck.streams <= held]
        served = set()
        for group, finds in self._local.found(groups, tables):
            served.add(group.number)
            _add(found, finds)
        others = [place for group in shares.groups if group.number not in served for place in group.members]
        return sorted([*shares.rest, *others])

    def _by_spark(
        self,
        rules: Sequence[Running],
        places: Sequence[int],
        found: _Finds,
        inputs: Mapping[str, pa.Table | DataFrame],
        count: int,
    ) -> set[int]:
        """Fills in what Spark finds for some of the rules; returns the places of those that failed.

        Where a statement fails each half of its rules is asked for again, down to the rule at fault; where it was
        stopped each rule by itself, as the one at fault takes all the time it may each time.
        """
        asked = [rules[place] for place in places]
        shares = self._sharing.of(asked)
        tables = {group.table: group.constants for group in shares.groups if len(group.members) > 1}
        for name, constants in tables.items():
            self._rows.frame(constants).createOrReplaceTempView(name)
        try:
            statement = self._sharing.statement(asked, shares)
            table = self._guard.run(asked, count, lambda: self._spark.sql(statement).toArrow())
        except (PySparkException, Py4JJavaError, TookTooLong) as error:
            if len(places) == 1:
                self._charge(asked[0], error, inputs)
                return {places[0]}
            half = 1 if isinstance(error, TookTooLong) else len(places) // 2
            parts = [places[i : i + half] for i in range(0, len(places), half)]
            return set().union(*(self._by_spark(rules, part, found, inputs, count) for part in parts))
        finally:
            for name in tables:
                self._spark.catalog.dropTempView(name)
        for index, ts, text in zip(
            table["rule"].to_pylist(), column(table, "ts").tolist(), table["attributes"].to_pylist(), strict=True
        ):
            found.setdefault(places[index], []).append(Found(ts, orjson.loads(text)))
        return set()

    def _charge(self, rule: Running, error: Exception, inputs: Mapping[str, pa.Table | DataFrame]) -> None:
        stream, *more = rule.shape.streams
        rows = inputs[stream]
        event = None
        if rule.shape.stateless and not more and isinstance(rows, pa.Table) and not isinstance(error, TookTooLong):
            event = self._culprit(rule, stream, rows)
        self._guard.fail(rule, error, event)

    def _culprit(self, rule: Running, stream: str, rows: pa.Table) -> dict[str, Any] | None:
        """The row at which a rule fails."""

        def fails(part: pa.Table) -> bool:
            statement = self._sharing.statement([rule], Shares((), (0,)))
            self._rows.frame(part).createOrReplaceTempView(view(stream))
            try:
                self._guard.run([rule], len(part), lambda: self._spark.sql(statement).toArrow())
            except (PySparkException, Py4JJavaError):
                return True
            except TookTooLong:
                return False
            return False

        row = rows if len(rows) == 1 else culprit(rows, fails)
        self._rows.frame(rows).createOrReplaceTempView(view(stream))
        plain = None if row is None else orjson.loads(orjson.dumps(row.to_pylist()[0], default=str))
        return None if plain is None else {"stream": stream, "row": plain}


def _add(found: _Finds, finds: Places) -> None:
    for place, one in finds:
        found.setdefault(place, []).append(one)
