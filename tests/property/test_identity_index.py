"""What becomes of a row depends on the rows archived before it, and on nothing else."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from archiver.delta.identity import (
    ENTRY_DTYPE,
    Array,
    ChunkIndex,
    IdentityIndex,
    build_entries,
    fingerprint,
)
from archiver.delta.schema import StreamSchema
from archiver.ingest.classify import RowClass, RowClassification, classify, flag_late, late_bound
from archiver.ingest.line_decoder import decode_lines


class Row(NamedTuple):
    """A row as the index knows it; few identities and contents, so that they meet."""

    id: int
    content: int
    unit: int
    line: int


@dataclass
class Model:
    """The archive as a dictionary."""

    held: dict[int, Row] = field(default_factory=dict)

    def take(self, rows: Iterable[Row]) -> list[RowClass]:
        return [self._take_one(row) for row in rows]

    def _take_one(self, row: Row) -> RowClass:
        before = self.held.get(row.id)
        if before is None:
            self.held[row.id] = row
            return "new"
        if before.content != row.content:
            return "conflict"
        return "replayed" if (before.unit, before.line) == (row.unit, row.line) else "duplicate"


@dataclass
class Real:
    """The same with the code under test."""

    index: ChunkIndex = field(default_factory=ChunkIndex)

    def take(self, rows: Sequence[Row]) -> list[RowClass]:
        marked = made(rows)
        verdicts = classify(marked, *self.index.find(marked["id"]))
        self.index.add(marked[verdicts.new])
        return named(verdicts)


def made(rows: Sequence[Row]) -> Array:
    numbers = [np.array([row[i] for row in rows], dtype="i8") for i in (1, 2, 3)]
    return build_entries([row.id.to_bytes(16, "big") for row in rows], *numbers)


def named(verdicts: RowClassification) -> list[RowClass]:
    """One word a row. Raises `ValueError` where a row has none or several."""
    flags = {word: getattr(verdicts, word) for word in ("new", "replayed", "duplicate", "conflict")}
    words = [[word for word, mask in flags.items() if mask[i]] for i in range(len(verdicts.new))]
    return [word for (word,) in words]  # type: ignore[misc]


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Rows of some units in batches; a batch may come again later, whole or from somewhere on, as after a crash."""
    contents = st.tuples(st.sampled_from([0, 1, 2, 256, 2**127, 2**128 - 1]), st.integers(0, 2))
    found: list[list[Row]] = []
    for unit in range(draw(st.integers(1, 30))):
        rows = draw(st.lists(contents, max_size=5))
        found.append([Row(id, content, unit, line) for line, (id, content) in enumerate(rows)])
    again = draw(
        st.lists(st.tuples(st.integers(0, len(found) - 1), st.integers(0, len(found))), max_size=4)
    )
    for which, place in again:
        found.insert(place, found[which])
    return found


@given(batches())
def test_verdicts_equal_those_of_a_dictionary(arriving: list[list[Row]]) -> None:
    model, real = Model(), Real()
    for rows in arriving:
        assert real.take(rows) == model.take(rows)
    assert len(real.index) == len(model.held)


@given(batches(), st.data())
def test_a_crash_and_a_second_reading_change_no_account(
    arriving: list[list[Row]], data: st.DataObject
) -> None:
    """Units are read in order; some of the last one's rows are in when the process dies, then it is read again."""
    units = [rows for i, rows in enumerate(arriving) if rows not in arriving[:i]]
    undisturbed, disturbed = Model(), Real()
    for rows in units:
        before = undisturbed.take(rows)
        disturbed.take(rows[: data.draw(st.integers(0, len(rows)))])
        second = ["new" if word == "replayed" else word for word in disturbed.take(rows)]
        assert second == before


@given(batches(), st.integers(0, 12), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_forgotten_chunks_are_loaded_again(
    arriving: list[list[Row]], memory: int, places: list[int]
) -> None:
    """Each chunk has its own identities; few fit in memory, the others come back from the table."""
    table: dict[int, list[Array]] = {}
    models: dict[int, Model] = {}
    index = IdentityIndex(
        lambda c: np.concatenate([np.empty(0, ENTRY_DTYPE), *table.get(c, [])]), memory
    )
    for place, rows in zip(places, arriving, strict=False):
        part = index.for_chunk(place)
        marked = made(rows)
        verdicts = classify(marked, *part.find(marked["id"]))
        table.setdefault(place, []).append(marked[verdicts.new])
        part.add(marked[verdicts.new])
        assert named(verdicts) == models.setdefault(place, Model()).take(rows)


days = st.none() | st.dates(max_value=date(1, 1, 3))
odd_floats = st.sampled_from([None, 0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf")])
scalars = {
    "x": odd_floats | st.floats(),
    "f": odd_floats | st.floats(width=32),
    "n": st.one_of(st.none(), st.integers(-2, 2)),
    "s": st.one_of(st.none(), st.text(max_size=2), st.sampled_from(["null", "nan", "1"])),
    "t": st.sampled_from([None, "", ",", ":", "1:a", "1:a,1:a", "a,1:a"]),
    "u": st.sampled_from([None, "", ",", ":", "1:a", "1:a,1:a", "a,1:a"]),
    "flag": st.one_of(st.none(), st.booleans()),
}
texts = dict.fromkeys("stu", "string")
KINDS = {
    "ts": "timestamp",
    "x": "double",
    "f": "float",
    "n": "bigint",
    **texts,
    "flag": "boolean",
    "day": "date",
}
rows_of_all_kinds = st.fixed_dictionaries({"ts": st.integers(0, 2), "day": days, **scalars})
variations = st.fixed_dictionaries({}, optional=scalars)
tables = st.builds(
    lambda row, others: [row, *({**row, **other} for other in others)],
    rows_of_all_kinds,
    st.lists(variations, min_size=1, max_size=5),
)


def schema_of(id: tuple[str, ...] | None) -> StreamSchema:
    return StreamSchema("s", KINDS, "ts", id, (), timedelta(0), timedelta(0))


def arrow(rows: list[dict[str, Any]], schema: StreamSchema) -> pa.Table:
    kinds = schema.arrow_schema()
    columns = {
        name: pa.array([row.get(name) for row in rows], kinds.field(name).type) for name in KINDS
    }
    return pa.table({**columns, "_extra": pa.nulls(len(rows), pa.string())})


def alike(values: Sequence[Any]) -> Counter[tuple[bool, ...]]:
    """Which of the values equal which, so that two ways of naming them can be compared."""
    return Counter(tuple(one == other for other in values) for one in values)


@given(tables)
def test_rows_are_the_same_exactly_when_their_values_are(rows: list[dict[str, Any]]) -> None:
    schema = schema_of(("n", "s", "t", "u"))
    ids, hashes = fingerprint(schema, arrow(rows, schema))
    assert alike(ids) == alike(
        [tuple(row[name] for name in ("ts", "n", "s", "t", "u")) for row in rows]
    )
    written = [repr(row) for row in arrow(rows, schema).drop_columns(["ts"]).to_pylist()]
    assert alike(hashes.tolist()) == alike(
        [(row["ts"], text) for row, text in zip(rows, written, strict=True)]
    )


@given(tables)
def test_without_id_columns_the_whole_row_is_the_identity(rows: list[dict[str, Any]]) -> None:
    schema = schema_of(None)
    ids, hashes = fingerprint(schema, arrow(rows, schema))
    assert alike(ids) == alike(hashes.tolist())


@given(
    st.dictionaries(st.text(), st.integers() | st.dictionaries(st.text(), st.none())), st.randoms()
)
def test_the_order_of_undeclared_fields_is_no_content(fields: dict[str, Any], random: Any) -> None:
    schema = StreamSchema("s", {"ts": "timestamp"}, "ts", ("ts",), (), timedelta(0), timedelta(0))
    names = [name for name in fields if name != "ts"]
    random.shuffle(names)
    shuffled = {name: fields[name] for name in names}
    lines = [json.dumps({**one, "ts": 0}).encode() for one in (fields, shuffled)]
    _, hashes = fingerprint(schema, decode_lines(schema, "jsonl", lines, 1).table)
    assert hashes[0] == hashes[1]


optional_times = st.one_of(st.none(), st.integers(-5, 5))


@given(st.lists(st.integers(-10, 10)), optional_times, optional_times, st.integers(0, 4))
def test_late_is_behind_what_was_seen_or_settled(
    times: list[int], newest: int | None, advanced: int | None, lateness: int
) -> None:
    bound = late_bound(newest, lateness, advanced)
    expected = [
        (newest is not None and ts < newest - lateness) or (advanced is not None and ts < advanced)
        for ts in times
    ]
    assert flag_late(np.array(times, dtype="i8"), bound).tolist() == expected
