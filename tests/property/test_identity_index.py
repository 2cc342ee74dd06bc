"""Classification of a row depends only on the rows archived before it; identities on its values."""

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
from archiver.formats import JSONL, RecordReading
from archiver.ingest.classify import RowClass, RowClassification, classify, flag_late, late_bound
from archiver.ingest.decoding import decode_lines


class Row(NamedTuple):
    """A row as the index stores it. Few identities and contents are drawn, so that they repeat."""

    id: int
    content: int
    unit: int
    line: int


@dataclass
class Model:
    """The archive as a dictionary."""

    rows: dict[int, Row] = field(default_factory=dict)

    def add(self, rows: Iterable[Row]) -> list[RowClass]:
        """Classify rows, and archive new ones."""
        return [self._add_row(row) for row in rows]

    def _add_row(self, row: Row) -> RowClass:
        archived = self.rows.get(row.id)
        if archived is None:
            self.rows[row.id] = row
            return "new"
        if archived.content != row.content:
            return "conflict"
        is_same_line = (archived.unit, archived.line) == (row.unit, row.line)
        return "replayed" if is_same_line else "duplicate"


@dataclass
class Archive:
    """The same with the code under test."""

    index: ChunkIndex = field(default_factory=ChunkIndex)

    def add(self, rows: Sequence[Row]) -> list[RowClass]:
        """Classify rows, and archive new ones."""
        return add_to_index(self.index, rows)[0]


def add_to_index(index: ChunkIndex, rows: Sequence[Row]) -> tuple[list[RowClass], Array]:
    """Classify rows, and add the new ones to the index. Returns the classes and the new entries."""
    entries = entries_of(rows)
    classification = classify(entries, *index.find(entries["id"]))
    new_entries = entries[classification.new]
    index.add(new_entries)
    return classes_of(classification), new_entries


def entries_of(rows: Sequence[Row]) -> Array:
    numbers = [np.array([row[i] for row in rows], dtype="i8") for i in (1, 2, 3)]
    return build_entries([row.id.to_bytes(16, "big") for row in rows], *numbers)


def classes_of(classification: RowClassification) -> list[RowClass]:
    """The class of each row. Raises `ValueError` if a row has none or several."""
    names: tuple[RowClass, ...] = ("new", "replayed", "duplicate", "conflict")
    classes: list[RowClass] = []
    for row in range(len(classification.new)):
        (name,) = [name for name in names if getattr(classification, name)[row]]
        classes.append(name)
    return classes


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Rows of units in batches. A batch may be repeated later, as after a crash."""
    contents = st.tuples(st.sampled_from([0, 1, 2, 256, 2**127, 2**128 - 1]), st.integers(0, 2))
    drawn: list[list[Row]] = []
    for unit in range(draw(st.integers(1, 30))):
        rows = draw(st.lists(contents, max_size=5))
        drawn.append([Row(id, content, unit, line) for line, (id, content) in enumerate(rows)])
    repetition = st.tuples(st.integers(0, len(drawn) - 1), st.integers(0, len(drawn)))
    for batch, position in draw(st.lists(repetition, max_size=4)):
        drawn.insert(position, drawn[batch])
    return drawn


@given(batches())
def test_classes_equal_those_of_a_dictionary(arriving: list[list[Row]]) -> None:
    model, archive = Model(), Archive()
    for rows in arriving:
        assert archive.add(rows) == model.add(rows)
    assert len(archive.index) == len(model.rows)


@given(batches(), st.data())
def test_rereading_a_unit_after_a_crash_gives_the_same_accounting(
    arriving: list[list[Row]], data: st.DataObject
) -> None:
    """A process dies when some rows of a unit are archived; then the whole unit is read again."""
    units = [rows for i, rows in enumerate(arriving) if rows not in arriving[:i]]
    model, archive = Model(), Archive()
    for rows in units:
        undisturbed = model.add(rows)
        archive.add(rows[: data.draw(st.integers(0, len(rows)))])
        reread = ["new" if name == "replayed" else name for name in archive.add(rows)]
        assert reread == undisturbed


@given(batches(), st.integers(0, 12), st.lists(st.integers(0, 3), min_size=40, max_size=40))
def test_evicted_chunks_are_loaded_again(
    arriving: list[list[Row]], max_rows: int, chunks: list[int]
) -> None:
    """Each chunk has its own identities. Few fit in memory; the table has the others."""
    table: dict[int, list[Array]] = {}
    models: dict[int, Model] = {}

    def load(chunk: int) -> dict[int, Array]:
        return {0: np.concatenate([np.empty(0, ENTRY_DTYPE), *table.get(chunk, [])])}

    index = IdentityIndex(load, max_rows)
    for chunk, rows in zip(chunks, arriving, strict=False):
        classes, new_entries = add_to_index(index.for_chunk(chunk)[0], rows)
        table.setdefault(chunk, []).append(new_entries)
        assert classes == models.setdefault(chunk, Model()).add(rows)


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
string_columns = dict.fromkeys("stu", "string")
COLUMNS = {
    "ts": "timestamp",
    "x": "double",
    "f": "float",
    "n": "bigint",
    **string_columns,
    "flag": "boolean",
    "day": "date",
}
rows_of_all_kinds = st.fixed_dictionaries({"ts": st.integers(0, 2), "day": days, **scalars})
variations = st.fixed_dictionaries({}, optional=scalars)
tables = st.builds(
    lambda row, variations: [row, *({**row, **changes} for changes in variations)],
    rows_of_all_kinds,
    st.lists(variations, min_size=1, max_size=5),
)


def schema_with_id(id: tuple[str, ...] | None) -> StreamSchema:
    return StreamSchema("s", COLUMNS, "ts", id, (), timedelta(0), timedelta(0))


def arrow_table(rows: list[dict[str, Any]], schema: StreamSchema) -> pa.Table:
    arrow_schema = schema.arrow_schema()
    columns = {}
    for name in COLUMNS:
        values = [row.get(name) for row in rows]
        columns[name] = pa.array(values, arrow_schema.field(name).type)
    return pa.table({**columns, "_extra": pa.nulls(len(rows), pa.string())})


def equality_pattern(values: Sequence[Any]) -> Counter[tuple[bool, ...]]:
    """Which values equal which: the same for two encodings that tell the same values apart."""
    return Counter(tuple(value == other for other in values) for value in values)


@given(tables)
def test_identities_and_hashes_are_equal_exactly_if_the_values_are(
    rows: list[dict[str, Any]],
) -> None:
    schema = schema_with_id(("n", "s", "t", "u"))
    ids, hashes = fingerprint(schema, arrow_table(rows, schema))
    assert equality_pattern(ids) == equality_pattern(
        [tuple(row[name] for name in ("ts", "n", "s", "t", "u")) for row in rows]
    )
    contents = [repr(row) for row in arrow_table(rows, schema).drop_columns(["ts"]).to_pylist()]
    assert equality_pattern(hashes.tolist()) == equality_pattern(
        [(row["ts"], text) for row, text in zip(rows, contents, strict=True)]
    )


@given(tables)
def test_without_id_columns_the_whole_row_is_the_identity(rows: list[dict[str, Any]]) -> None:
    schema = schema_with_id(None)
    ids, hashes = fingerprint(schema, arrow_table(rows, schema))
    assert equality_pattern(ids) == equality_pattern(hashes.tolist())


@given(
    st.dictionaries(st.text(), st.integers() | st.dictionaries(st.text(), st.none())), st.randoms()
)
def test_order_of_undeclared_fields_does_not_change_the_hash(
    fields: dict[str, Any], random: Any
) -> None:
    schema = StreamSchema("s", {"ts": "timestamp"}, "ts", ("ts",), (), timedelta(0), timedelta(0))
    names = [name for name in fields if name != "ts"]
    random.shuffle(names)
    shuffled = {name: fields[name] for name in names}
    lines = [json.dumps({**row, "ts": 0}).encode() for row in (fields, shuffled)]
    _, hashes = fingerprint(schema, decode_lines(schema, RecordReading(JSONL), lines, 1).table)
    assert hashes[0] == hashes[1]


optional_times = st.one_of(st.none(), st.integers(-5, 5))


@given(st.lists(st.integers(-10, 10)), optional_times, optional_times, st.integers(0, 4))
def test_row_is_late_if_behind_the_newest_minus_lateness_or_the_advanced_watermark(
    times: list[int], newest: int | None, advanced: int | None, lateness: int
) -> None:
    bound = late_bound(newest, lateness, advanced)
    expected = [
        (newest is not None and ts < newest - lateness) or (advanced is not None and ts < advanced)
        for ts in times
    ]
    assert flag_late(np.array(times, dtype="i8"), bound).tolist() == expected
