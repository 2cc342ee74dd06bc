"""Files of any format are archived the same in this process and on executors."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from archiver.delta import StreamSchema
from archiver.executors import pieces
from archiver.executors.ingest import ExecutorIngest
from archiver.formats import CsvDialect, Format
from archiver.ingest.engines import LocalIngest
from archiver.ingest.engines.engine_choice import RecordSizes
from moirae.live.sources import files
from tests.formats import declare
from tests.ingest_scenario import assert_equal
from tests.inline_jobs import InlineJobs
from tests.unit.archiver.executors.test_ingest import Archive

TIME = "2025-01-01T00:00:{:02d}Z"
LOG = '::1 - - [01/Jan/2025:00:00:{:02d} +0000] "GET /{} HTTP/1.1" 200 5 "-" "x"\n'


def lines(template: str) -> str:
    return "".join(template.format(TIME.format(n % 60), n % 7) for n in range(120))


CONTENTS: dict[str, tuple[Format, str]] = {
    "combined": (Format("combined"), "".join(LOG.format(n % 60, n % 7) for n in range(120))),
    "text": (
        Format("text", pattern=r"(?P<time>\S+) (?P<path>.*)", starts_with="2025"),
        lines("{} /{}\n more\n"),
    ),
    "csv": (
        Format("csv", csv=CsvDialect(delimiter=";", comment="#", null_values=("-", "/3"))),
        "# c\ntime;path;n\n" + lines('{};"/{}\nx";-\n'),
    ),
    "plain csv": (Format("csv"), "time,path\n" + lines('{},"/{}\nx"\n') + '2025,"open\n'),
    "json": (
        Format("json", records="items"),
        '{"items": [' + lines('{{"time":"{}",\n"path":"/{}"}},')[:-1] + "]}",
    ),
    "logfmt": (Format("logfmt"), lines("time={} path=/{} more=1\n")),
    "cri": (Format("cri"), lines("{} stdout P a\n2025-01-01T00:00:00Z stdout F {}\n")),
}


def schema_of(record_format: Format) -> StreamSchema:
    columns = {"host": "string", "n": "bigint", "v": "double"}
    fields = {"ts": ("time",), "host": ("path", "message")}
    identity = "row" if record_format.is_csv or record_format.has_documents else "place"
    return declare(columns, fields, identity=identity)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [*((name, "") for name in sorted(CONTENTS)), ("json", ".gz"), ("combined", ".zst")],
)
def test_engines_archive_the_same(
    tmp_path: Path, name: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "MIN_DIVIDED_BYTES", 100)
    monkeypatch.setattr(pieces, "_MIN_RANGE_BYTES", 500)
    record_format, text = CONTENTS[name]
    content = text.encode()
    if suffix == ".gz":
        content = gzip.compress(content)
    elif suffix == ".zst":
        content = pa.compress(content, "zstd", asbytes=True)
    units = []
    for number in range(2):
        path = tmp_path / f"{number}.log{suffix}"
        path.write_bytes(content)
        units.append(files.make_unit("s", path.name, record_format, path, len(content)))
    outcomes = []
    for folder in ("local", "executors"):
        archive = Archive(tmp_path / folder, 1000, schemas=[schema_of(record_format)])
        engine = LocalIngest(archive.tables)
        if folder == "executors":
            engine = ExecutorIngest(InlineJobs(), RecordSizes())  # type: ignore[assignment]
        for _ in range(2):  # the second time nothing is new
            batch = archive.start_batch()
            engine.archive(units, batch)
            archive.finish_batch(batch)
        outcomes.append(archive.outcome())
    assert_equal(outcomes[1], outcomes[0])
    rows = outcomes[0]["rows"]
    assert len(rows["s"] if isinstance(rows, dict) else rows) > 0
