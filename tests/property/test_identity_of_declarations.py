"""A record that comes again is a duplicate, however the columns of its stream changed meanwhile."""

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from archiver.delta import ColumnRewrite, StreamSchema
from archiver.executors import ExecutorIngest
from archiver.formats import Format, RecordReading
from archiver.ingest.decoding import decode_lines
from archiver.ingest.engines.batch import IngestEngine
from archiver.ingest.engines.engine_choice import RecordSizes
from archiver.ingest.engines.local_ingest import LocalIngest
from archiver.ingest.ledger import Counters
from archiver.ingest.source_units import SourceUnit
from moirae.live.sources import files
from tests.examples import examples
from tests.ingest_scenario import START
from tests.inline_jobs import InlineJobs
from tests.unit.archiver.executors.test_ingest import Archive

FormatName = Literal["jsonl", "csv"]
Record = Mapping[str, Any]

# By field: the types that it may be declared with, each of which may become one after it. None: the
# field is undeclared, and stored in `_extra`.
TYPES: Mapping[str, Sequence[str]] = {
    "v": ("int", "bigint", "double"),
    "f": ("float", "double"),
    "day": ("date", "timestamp"),
    "s": ("string",),
    "flag": ("boolean",),
}
VALUES: Mapping[str, Sequence[Any]] = {
    "v": (None, 0, 95, "95", "95.0", 95.5, 1e3, 2**31, 2**53, "-7", "abc", True),
    "f": (None, 0.1, "0.1", 1, 16777217, "1e3", "nan", "x"),
    "day": (None, "2026-01-31", "2026-01-31T12:00:00Z", 5),
    "s": (None, "", "a,b", 7, [1], {"x": None}),
    "flag": (None, True, "false", 0),
}
FIELDS = ("ts", "n", *TYPES)


class Column(NamedTuple):
    """A declared column, and the name that it had before."""

    name: str
    type: str
    was: str | None


@st.composite
def columns_in_order(draw: st.DrawFn) -> list[list[Column]]:
    """The optional columns of consecutive declarations."""
    count = draw(st.integers(2, 4))
    chain: list[list[Column]] = [[] for _ in range(count)]
    for field_name in draw(st.permutations(sorted(TYPES))):
        width = 0
        names = (field_name, f"{field_name}_now")
        has_new_name = False
        for columns in chain:
            if draw(st.booleans()):
                width = draw(st.integers(width, len(TYPES[field_name]) - 1))
                is_renamed = draw(st.booleans())
                has_new_name |= is_renamed
                name, other_name = names[::-1] if is_renamed else names
                was = other_name if has_new_name else None
                columns.append(Column(name, TYPES[field_name][width], was))
    return chain


@dataclass(frozen=True)
class Round:
    """What arrives under a declaration: records in files, some of them again.

    `is_interrupted`: the process ends between the append and the ledger.
    """

    columns: Sequence[Column]
    files: Sequence[Sequence[Record]]
    is_clustered: bool
    is_interrupted: bool


@st.composite
def rounds(draw: st.DrawFn) -> list[Round]:
    """Consecutive rounds."""
    known: list[Record] = []
    drawn: list[Round] = []
    number = 0
    for columns in draw(columns_in_order()):
        contents: list[list[Record]] = []
        for _ in range(draw(st.integers(1, 2))):
            records: list[Record] = []
            for _ in range(draw(st.integers(0, 6))):
                if known and draw(st.booleans()):
                    records.append(draw(st.sampled_from(known)))
                    continue
                number += 1
                second = draw(st.integers(0, 3))
                record: dict[str, Any] = {"ts": (START + timedelta(0, second)).isoformat()}
                record["n"] = number
                for name in TYPES:
                    if draw(st.booleans()):
                        record[name] = draw(st.sampled_from(VALUES[name]))
                records.append(record)
                known.append(record)
            contents.append(records)
        drawn.append(Round(columns, contents, draw(st.booleans()), draw(st.booleans())))
    return drawn


def encode(format_name: FormatName, records: Sequence[Record]) -> list[bytes]:
    """The lines of a file of records."""
    if format_name == "jsonl":
        return [json.dumps(record).encode() for record in records]
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode().splitlines()


def write_unit(path: Path, format_name: FormatName, records: Sequence[Record]) -> SourceUnit:
    """A file of records."""
    path.write_bytes(b"".join(line + b"\n" for line in encode(format_name, records)))
    return files.make_unit("s", path.name, Format(format_name), path, path.stat().st_size)


def declare(columns: Sequence[Column], id: tuple[str, ...] | None) -> StreamSchema:
    """A declaration with these optional columns, as a workspace file has it."""
    none = timedelta(0)
    was = {column.name: column.was for column in columns if column.was is not None}
    return StreamSchema(
        name="s",
        columns={
            "ts": "timestamp",
            "n": "bigint",
            **{column.name: column.type for column in columns},
        },
        time="ts",
        id=id,
        key=(),
        lateness=none,
        future=none,
        fields={name: (name, before) for name, before in was.items()},
        was=was,
    )


@dataclass
class Stream:
    """A stream whose declaration changes, archived by one engine without a database."""

    folder: Path
    on_executors: bool
    id: tuple[str, ...] | None
    archive: Archive = field(init=False)
    unit_ids: dict[str, int] = field(default_factory=dict)

    def open(self, columns: Sequence[Column]) -> None:
        """Start a process under a declaration. The ids of units stay."""
        self.archive = Archive(self.folder, 100, schemas=[declare(columns, self.id)])
        self.archive.ids = self.unit_ids
        table = self.archive.tables["s"]
        if table.is_rewriting:
            ColumnRewrite(table).run(lambda progress: None)

    def ingest(self, units: Sequence[SourceUnit]) -> list[Counters]:
        """Archive units, and return the counters of each."""
        engine: IngestEngine = LocalIngest(self.archive.tables)
        if self.on_executors:
            engine = ExecutorIngest(InlineJobs(), RecordSizes())
        batch = self.archive.start_batch()
        engine.archive(units, batch)
        LocalIngest(self.archive.tables).count_archived_lines(batch.open_units, batch)
        return [open_unit.counters for open_unit in batch.open_units]

    def rows(self) -> list[str]:
        """The archived rows with their identities."""
        columns = ["n", "_extra", "_late", "_id", "_hash", "_unit", "_line"]
        return sorted(map(repr, self.archive.tables["s"].read(columns).to_pylist()))


@dataclass
class Model:
    """Where each record was archived. A declaration accepts or refuses it by its own decoder."""

    archived: dict[int, tuple[str, int]] = field(default_factory=dict)

    def add(self, file: str, records: Sequence[Record], is_accepted: Sequence[bool]) -> Counters:
        """Count the records of a file, which may be read again."""
        counters = Counters(read=len(records))
        for line, (record, accepted) in enumerate(zip(records, is_accepted, strict=True)):
            if record["n"] not in self.archived and not accepted:
                counters += Counters(malformed=1)
            elif self.archived.setdefault(record["n"], (file, line)) == (file, line):
                counters += Counters(archived=1)
            else:
                counters += Counters(duplicates=1)
        return counters


def accepts(schema: StreamSchema, format_name: FormatName, record: Record) -> bool:
    """Whether a declaration accepts a record."""
    *_, line = encode(format_name, [record])
    return not decode_lines(
        schema, RecordReading(Format(format_name), FIELDS), [line], 0
    ).refused_lines


def without_parts(counters: Counters) -> Counters:
    """The counts that add up to the records, without what they consist of."""
    return replace(counters, late=0, replayed=0, replayed_late=0)


@examples(8)
@given(rounds(), st.sampled_from(["jsonl", "csv"]), st.sampled_from([None, ("n",)]))
def test_repeated_records_are_duplicates(
    drawn: list[Round], format_name: FormatName, id: tuple[str, ...] | None
) -> None:
    """The files of an interrupted round are read again under the next declaration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        streams = [Stream(folder / "local", False, id), Stream(folder / "executors", True, id)]
        model = Model()
        contents: dict[str, Sequence[Record]] = {}
        for number, arriving in enumerate(drawn):
            schema = declare(arriving.columns, id)
            for position, records in enumerate(arriving.files):
                contents[f"{number}-{position}"] = records
            units: list[SourceUnit] = []
            expected: list[Counters] = []
            for file, records in contents.items():
                units.append(write_unit(folder / file, format_name, records))
                is_accepted = [accepts(schema, format_name, record) for record in records]
                expected.append(model.add(file, records, is_accepted))
            for stream in streams:
                stream.open(arriving.columns)
                counters = stream.ingest(units)
                assert list(map(without_parts, counters)) == expected
                assert len(stream.rows()) == len(model.archived)
                if arriving.is_clustered:
                    stream.archive.tables["s"].cluster(0)
            if not arriving.is_interrupted:
                contents.clear()
        local, executors = streams
        assert executors.rows() == local.rows()
