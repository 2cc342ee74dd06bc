"""The workspace file."""

# the contract is kept word for word

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moirae.config.settings import Settings, load_settings, load_settings_from_environment
from moirae.config.streams import FileSource, HttpSource, KafkaSource, infer_format
from moirae.documents.reader import parse_document
from moirae.documents.validation import validate
from moirae.errors import ProblemsError, UsageError

CONTRACT = """\
home: .moirae                     # data, checkpoints, embedded database; relative to this file
database: null                    # null = embedded PostgreSQL; else a DSN or ${ENV}
archive: null                     # null = <home>/archive; else file://, s3a://, abfss://, hdfs:// …
spark: {master: "local[2]", conf: {}}
server: {listen: 127.0.0.1:8765}
streams:
  cpu:
    columns: {ts: timestamp, host: string, slice: string, cpu: double}
    time: ts                      # event time, UTC
    id: [host, slice, ts]         # absent: hash of the row
    key: [host]                   # clustering inside chunks
    lateness: 1m
    future: 5m
    source: {files: landing/cpu/*.jsonl}     # complete when they appear; csv and .gz too; or {http: true}, or {kafka: {servers: …, topic: …}}
relations:
  hosts: {columns: {host: string, site: string}, key: [host], source: {file: hosts.csv}}
chunks: {rows: 1_000_000, age: 1h, recent: 24, keep: 90d}     # event time
recall: {history_queries: 2, feedback_timeout: 10m, engine: auto}
rules: [rules/*.yaml]
receivers: {ops: {webhook: "http://127.0.0.1:9999/"}}
routes: [{match: {severity: page}, receiver: ops}]
"""

STREAM = """\
streams:
  cpu:
    columns: {ts: timestamp, host: string}
    time: ts
    source: {http: true}
"""


def load(folder: Path, text: str, **environ: str) -> Settings:
    (folder / "moirae.yaml").write_text(text, encoding="utf-8")
    return load_settings(folder / "moirae.yaml", environ)


def complaints(folder: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ProblemsError) as caught:
        load(folder, text, **environ)
    return [
        str(problem).removeprefix(f"{folder}/moirae.yaml:") for problem in caught.value.problems
    ]


def test_the_whole_contract_is_read(tmp_path: Path) -> None:
    found = load(tmp_path, CONTRACT)
    assert found.file == tmp_path / "moirae.yaml"
    assert found.home == tmp_path / ".moirae"
    assert found.archive == str(tmp_path / ".moirae/archive")
    assert found.database is None
    assert (found.spark.master, found.spark.conf) == ("local[2]", {})
    assert (found.server.host, found.server.port) == ("127.0.0.1", 8765)
    cpu = found.streams["cpu"]
    assert cpu.columns == {"ts": "timestamp", "host": "string", "slice": "string", "cpu": "double"}
    assert (cpu.time, cpu.id, cpu.key) == ("ts", ("host", "slice", "ts"), ("host",))
    assert (cpu.lateness, cpu.future, cpu.idle) == (
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(seconds=10),
    )
    assert cpu.source == FileSource(files=str(tmp_path / "landing/cpu/*.jsonl"), format="jsonl")
    hosts = found.relations["hosts"]
    assert (hosts.key, hosts.source.file, hosts.source.format) == (
        ("host",),
        str(tmp_path / "hosts.csv"),
        "csv",
    )
    assert (found.chunks.rows, found.chunks.recent) == (1_000_000, 24)
    assert (found.chunks.age, found.chunks.keep) == (timedelta(hours=1), timedelta(days=90))
    assert (found.recall.history_queries, found.recall.engine) == (2, "auto")
    assert found.recall.feedback_timeout == timedelta(minutes=10)
    assert found.rules == (str(tmp_path / "rules/*.yaml"),)
    webhook = found.receivers["ops"].webhook
    assert webhook is not None
    assert webhook.get_secret_value() == "http://127.0.0.1:9999/"
    assert (found.routes[0].match, found.routes[0].receiver) == ({"severity": "page"}, "ops")
    assert found.table_names == {"cpu", "hosts"}


def test_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    given_all, none = load(tmp_path, CONTRACT), load(tmp_path, "home: .moirae\n")
    for name in ("home", "database", "archive", "spark", "server", "chunks", "recall", "rules"):
        assert getattr(none, name) == getattr(given_all, name), name


def test_sources(tmp_path: Path) -> None:
    text = STREAM.replace("{http: true}", "{kafka: {servers: '${BROKERS}', topic: t}, format: csv}")
    source = load(tmp_path, text, BROKERS="a:9092,b:9092").streams["cpu"].source
    assert isinstance(source, KafkaSource)
    assert (source.kafka.servers, source.kafka.topic, source.format) == (
        "a:9092,b:9092",
        "t",
        "csv",
    )
    source = load(tmp_path, STREAM).streams["cpu"].source
    assert source == HttpSource(http=True)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.jsonl", "jsonl"),
        ("a.ndjson.gz", "jsonl"),
        ("x/*.csv", "csv"),
        ("A.CSV", "csv"),
        ("*.json.gz", "jsonl"),
    ],
)
def test_formats_by_suffix(name: str, format: str) -> None:
    assert infer_format(name) == format


def test_types_are_canonical(tmp_path: Path) -> None:
    text = STREAM.replace("host: string", "host: STRING, a: Integer, b: LONG, c: int")
    assert load(tmp_path, text).streams["cpu"].columns == {
        "ts": "timestamp",
        "host": "string",
        "a": "int",
        "b": "bigint",
        "c": "int",
    }


def test_places(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "home: /data/m\narchive: 'file:///mnt/${BUCKET}/archive'\nrules: [/etc/r.yaml]\n",
        BUCKET="b",
    )
    assert (found.home, found.archive, found.rules) == (
        Path("/data/m"),
        "/mnt/b/archive",
        ("/etc/r.yaml",),
    )
    assert load(tmp_path, "home: /data/m\n").archive == "/data/m/archive"
    assert load(tmp_path, "archive: cold\n").archive == str(tmp_path / "cold")
    for written in ("s3://a.bucket/of/mine", "s3a://a.bucket/of/mine/", "s3://${NAME}/of/mine"):
        assert (
            load(tmp_path, f"archive: {written}\n", NAME="a.bucket").archive
            == "s3://a.bucket/of/mine"
        )
    assert load(tmp_path, "archive: s3://bucket\n").archive == "s3://bucket"


def test_rule_files_are_found_once_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for name in ("b.yaml", "a.yaml", "c.txt"):
        (tmp_path / "rules" / name).touch()
    found = load(tmp_path, "rules: [rules/*.yaml, rules/b.*]\n").find_rule_files()
    assert found == (tmp_path / "rules/a.yaml", tmp_path / "rules/b.yaml")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    text = "database: ${DSN}\nreceivers: {ops: {webhook: 'https://hook/secret-1'}, p: {pagerduty: '${KEY}'}}\n"
    found = load(tmp_path, text, DSN="postgresql://me:secret-2@db/moirae", KEY="secret-3")
    assert "secret-" not in f"{found!r} {found} {found.model_dump()} {found.model_dump_json()}"
    assert found.database is not None
    assert found.database.get_secret_value() == "postgresql://me:secret-2@db/moirae"


@pytest.mark.parametrize(
    "text", ["database: me:secret@db\n", "database: 5\n", "receivers: {o: {webhook: secret}}\n"]
)
def test_nor_in_complaints(tmp_path: Path, text: str) -> None:
    (complaint,) = complaints(tmp_path, text)
    assert "secret" not in complaint
    assert "not 5" not in complaint


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("chunk: {}\n", "1:1: unknown key 'chunk', did you mean 'chunks'?"),
        ("chunks: {rows: 5, agee: 1h}\n", "1:19: chunks: unknown key 'agee', did you mean 'age'?"),
        ("chunks: {rows: 0}\n", "1:16: chunks.rows: must be at least 1, not 0"),
        ("chunks: {rows: '5'}\n", "1:16: chunks.rows: must be an integer, not '5'"),
        ("chunks: {rows: 5.5}\n", "1:16: chunks.rows: must be an integer, not 5.5"),
        ("chunks: {rows: .nan}\n", "1:16: chunks.rows: must be a finite number, not .nan"),
        (
            "chunks:\n  age: 3600\n",
            "2:8: chunks.age: a duration needs a unit; write a number with a unit, such as ",
        ),
        ("chunks:\n", "1:1: chunks: must be a mapping, `key: value`, not nothing"),
        ("server: {listen: 8765}\n", "1:18: server.listen: must be text, not a number; quote it"),
        (
            "server: {listen: localhost}\n",
            "1:18: server.listen: 'localhost' is not host:port, such as 127.0.0.1:8765",
        ),
        (
            "server: {listen: 'h:70000'}\n",
            "1:18: server.listen: 'h:70000' is not host:port, such as 127.0.0.1:8765",
        ),
        (
            "recall: {engine: sparc}\n",
            "1:18: recall.engine: must be 'auto', 'spark' or 'local', not 'sparc'",
        ),
        ("database: ${NONE}\n", "1:11: database: the environment variable NONE is not set"),
        ("database: ${no\n", "1:11: database: a variable is written ${NAME}"),
        (
            "home: ${HOME}/x\n",
            "1:7: home: ${…} is replaced only in database, archive, receivers and kafka servers",
        ),
        (
            "archive: gs://b/a\n",
            "1:10: archive: must be a folder of a local file system, or s3://bucket/prefix",
        ),
        (
            "archive: s3://k:secret@b.c/a\n",
            "1:10: archive: not s3://bucket/prefix of letters, digits and . _ - =; set keys",
        ),
        (
            "archive: s3://buc/../a\n",
            "1:10: archive: not s3://bucket/prefix of letters, digits and . _ - =; set keys",
        ),
        ("archive: s3://bucket/a?x=1\n", "1:10: archive: not s3://bucket/prefix"),
        ("rules: rules/*.yaml\n", "1:8: rules: must be a list, not 'rules/*.yaml'"),
        ("routes: [{receiver: opps}]\n", "1:21: routes[0].receiver: unknown receiver 'opps'"),
        (
            "receivers: {o: {}}\n",
            "1:13: receivers.o.apprise: a receiver has exactly one of webhook, pagerduty and ",
        ),
        ("home: a\nhome: b\n", "2:1: duplicate key 'home', first on line 1"),
        ("", "1:1: no workspace: the file is empty"),
    ],
)
def test_faults_of_settings(tmp_path: Path, text: str, complaint: str) -> None:
    (found,) = complaints(tmp_path, text)
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "host: string",
            "host: strin",
            "3:36: streams.cpu.columns.host: unknown column type 'strin', did you mean ",
        ),
        (
            "host: string",
            "_h: string",
            "3:30: streams.cpu.columns: '_h' is not a valid name; a name is a letter, ",
        ),
        (
            "host: string",
            "chunk: string",
            "3:30: streams.cpu.columns.chunk: column name 'chunk' is reserved",
        ),
        (
            "host: string",
            "TS: string",
            "3:30: streams.cpu.columns.TS: column 'TS' differs from 'ts' only in case",
        ),
        (
            "time: ts",
            "time: tss",
            "4:11: streams.cpu.time: unknown column 'tss', did you mean 'ts'?",
        ),
        (
            "time: ts",
            "time: host",
            "4:11: streams.cpu.time: column 'host' must be a timestamp, not string",
        ),
        ("    time: ts\n", "", "2:3: streams.cpu: missing key 'time'"),
        (
            "time: ts",
            "time: ts\n    id: [ts, hots]",
            "5:14: streams.cpu.id[1]: unknown column 'hots', did you mean",
        ),
        (
            "time: ts",
            "time: ts\n    key: [ts, ts]",
            "5:15: streams.cpu.key[1]: column 'ts' is listed twice",
        ),
        ("time: ts", "time: ts\n    idle: 0s", "5:11: streams.cpu.idle: must be longer than 0s"),
        (
            "{http: true}",
            "{http: NO}",
            "5:20: streams.cpu.source.http: must be true",
        ),
        (
            "{http: true}",
            "{}",
            "5:13: streams.cpu.source: a source is exactly one of {files: GLOB}, {http: true} and",
        ),
        (
            "{http: true}",
            "{http: true, files: x.csv}",
            "5:13: streams.cpu.source: a source is exactly one of ",
        ),
        (
            "{http: true}",
            "{http: true, fromat: csv}",
            "5:26: streams.cpu.source: unknown key 'fromat', did you mean ",
        ),
        (
            "{http: true}",
            "{files: x/*}",
            "5:5: streams.cpu.source.format: unknown file suffix; set `format`",
        ),
        (
            "{http: true}",
            "{kafka: {servers: a}}",
            "5:14: streams.cpu.source.kafka: missing key 'topic'",
        ),
        ("  cpu:", "  event:", "2:3: streams.event: a stream must not be named event"),
        (
            "  cpu:",
            "  Cpu:",
            "2:3: streams: 'Cpu' is not a valid name; a name is a lower-case letter",
        ),
    ],
)
def test_faults_of_streams(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    (found,) = complaints(tmp_path, STREAM.replace(old, new))
    assert found.startswith(complaint)


def test_faults_of_relations(tmp_path: Path) -> None:
    text = STREAM + (
        "relations:\n"
        "  cpu: {columns: {a: int}, key: [a], source: {file: a.csv}}\n"
        "  b: {columns: {a: int, valid_to: date}, key: [], valid_from: a, source: {file: a.csv}}\n"
    )
    assert complaints(tmp_path, text) == [
        "8:25: relations.b.columns.valid_to: column name 'valid_to' is reserved",
        "8:47: relations.b.key: must not be empty",
    ]
    text = text.replace(", valid_to: date", "").replace("key: []", "key: [a]")
    assert complaints(tmp_path, text) == [
        "8:48: relations.b.valid_from: column 'a' must be a timestamp, not int"
    ]
    text = text.replace("valid_from: a, ", "")
    assert complaints(tmp_path, text) == [
        "7:3: relations.cpu: the name 'cpu' is in use; streams and relations share one namespace"
    ]


def test_all_problems_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "home: 5\nchunks: {age: 5}\nhome: x\nrecal: {}\n" + STREAM.replace(
        "time: ts", "time: no"
    )
    assert [found.split(":")[:2] for found in complaints(tmp_path, text)] == [
        *(["1", "7"], ["2", "15"], ["3", "1"], ["4", "1"], ["8", "11"])
    ]


def test_a_missing_workspace_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError,
        match=r"^moirae.yaml: no such workspace file; create one with `moirae init DIR`$",
    ) as e:
        load_settings_from_environment()
    assert e.value.exit_code == 2


def test_the_environment_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "moirae.yaml").write_text("archive: ${PLACE}\n", encoding="utf-8")
    monkeypatch.setenv("PLACE", "/mnt/a")
    assert load_settings_from_environment(tmp_path).archive == "/mnt/a"


VALUES = st.recursive(
    st.sampled_from(["x", "ts", "5m", "1", "~", "true", ".nan", "'${X}'", "timestamp", "''"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.dictionaries(
            st.sampled_from(
                "home streams cpu columns time id key source files http kafka format receivers".split()
            ),
            inner,
            max_size=4,
        ).map(lambda parts: "{" + ", ".join(f"{k}: {v}" for k, v in parts.items()) + "}"),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(list(Settings.model_fields)), VALUES, min_size=1))
def test_any_workspace_is_read_or_refused(parts: dict[str, str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in parts.items())
    document, faults = parse_document("w.yaml", text, empty_message="")
    assert document is not None
    model, problems = validate(Settings, document)
    assert model is None if problems else model is not None or faults
    assert all(problem.line is not None and problem.line <= len(parts) for problem in problems)
