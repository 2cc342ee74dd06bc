"""Streams and relations of the workspace file."""

from pathlib import Path

import pytest

from archiver.formats import infer_format_name
from moirae.config.streams import HttpSource, KafkaSource, RelationFile
from tests.unit.moirae.config.workspace_files import STREAM, load, load_problems


def test_source_is_kafka_or_http(tmp_path: Path) -> None:
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
def test_format_is_inferred_from_the_suffix(name: str, format: str) -> None:
    assert infer_format_name(name) == format


def test_column_types_are_canonical(tmp_path: Path) -> None:
    text = STREAM.replace("host: string", "host: STRING, a: Integer, b: LONG, c: int")
    assert load(tmp_path, text).streams["cpu"].columns == {
        "ts": "timestamp",
        "host": "string",
        "a": "int",
        "b": "bigint",
        "c": "int",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
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
            "5:13: streams.cpu.source: a source is exactly one of {files: GLOB}, {http: true}, {kafka",
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
def test_invalid_stream_is_rejected_at_its_position(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    (problem,) = load_problems(tmp_path, STREAM.replace(old, new))
    assert problem.startswith(message)


def test_invalid_relation_is_rejected_at_its_position(tmp_path: Path) -> None:
    text = STREAM + (
        "relations:\n"
        "  cpu: {columns: {a: int}, key: [a], source: {file: a.csv}}\n"
        "  b: {columns: {a: int, valid_to: date}, key: [], valid_from: a, source: {file: a.csv}}\n"
    )
    assert load_problems(tmp_path, text) == [
        "8:25: relations.b.columns.valid_to: column name 'valid_to' is reserved",
        "8:47: relations.b.key: must not be empty",
    ]
    text = text.replace(", valid_to: date", "").replace("key: []", "key: [a]")
    assert load_problems(tmp_path, text) == [
        "8:48: relations.b.valid_from: column 'a' must be a timestamp, not int"
    ]
    text = text.replace("valid_from: a, ", "")
    assert load_problems(tmp_path, text) == [
        "7:3: relations.cpu: the name 'cpu' is in use; streams and relations share one namespace"
    ]


def test_relation_may_be_an_object_and_may_shrink(tmp_path: Path) -> None:
    relation = "  b: {columns: {a: int}, key: [a], shrink: SHRINK, source: {file: FILE}}\n"
    text = STREAM + "relations:\n" + relation.replace("FILE", "s3://bucket/b.csv.gz")
    declared = load(tmp_path, text.replace("SHRINK", "allow")).relations["b"]
    assert declared.shrink == "allow"
    assert isinstance(declared.source, RelationFile) and declared.source.is_in_object_storage
    assert declared.source.format == "csv"
    assert load_problems(tmp_path, text.replace("SHRINK", "yes"))[0].startswith(
        "7:44: relations.b.shrink: "
    )
    text = STREAM + "relations:\n" + relation.replace("FILE", "https://host/b.csv")
    problems = load_problems(tmp_path, text.replace("SHRINK", "hold"))
    assert any(problem.endswith("must be a path or s3://BUCKET/KEY") for problem in problems)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{files: 'a/*.jsonl', after: 'move:a'}", "files in this folder are files of the stream"),
        ("{files: '*/x/*.jsonl', after: 'move:b/x'}", "files in this folder are files of the"),
        (
            "{files: 'a/*.log', format: text, tail: true, after: delete}",
            "files that grow are never",
        ),
        ("{files: 'a/*.jsonl', ordered: true}", "files in folders are found without their order"),
        ("{files: 's3://b/*.jsonl', after: delete}", "objects of S3 storage stay"),
    ],
)
def test_files_that_would_be_read_again_are_not_removed(
    tmp_path: Path, source: str, message: str
) -> None:
    (problem,) = load_problems(tmp_path, STREAM.replace("{http: true}", source))
    assert message in problem


def test_folder_of_archived_files_is_relative_to_the_workspace(tmp_path: Path) -> None:
    source = "{files: 'a/*.jsonl', after: 'move:a/old'}"
    declared = load(tmp_path, STREAM.replace("{http: true}", source)).streams["cpu"].source
    assert declared.after == f"move:{tmp_path}/a/old"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("{what: version, where: {host: host}}", "'version' is no column of the stream"),
        ("{what: host, where: {host: node}}", "'node' is no column of the stream"),
        ("{what: host, where: {}}", "where"),
        ("{what: host, where: {host: host}, steps: 9}", "steps"),
    ],
)
def test_changes_name_columns_of_their_stream(tmp_path: Path, changes: str, message: str) -> None:
    text = STREAM.replace("time: ts", f"time: ts\n    changes: {changes}")
    (problem,) = load_problems(tmp_path, text)
    assert message in problem


@pytest.mark.parametrize(
    ("redact", "message"),
    [
        ("{column: ts, pattern: x}", "'ts' is no column of type string, and not _extra"),
        ("{column: host, pattern: 'x*'}", "matches the empty text"),
        ("{column: host, pattern: '('}", "not a regular expression of RE2"),
        (r"{column: host, pattern: '(a)', with: '\2'}", "names a group that the pattern does not"),
    ],
)
def test_secrets_are_texts_that_a_pattern_matches(
    tmp_path: Path, redact: str, message: str
) -> None:
    text = STREAM.replace("time: ts", f"time: ts\n    redact: [{redact}]")
    (problem,) = load_problems(tmp_path, text)
    assert message in problem
