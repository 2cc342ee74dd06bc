"""The workspace file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.config import EXTERNAL_ALERTS
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.config.streams import FileSource
from moirae.documents.reader import parse_document
from moirae.documents.validation import validate
from moirae.errors import UsageError
from tests.examples import examples
from tests.unit.moirae.config.workspace_files import STREAM, load, load_problems

# All keys, with the layout and comments of the documentation.
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


def test_every_key_is_read(tmp_path: Path) -> None:
    workspace = load(tmp_path, CONTRACT)
    assert workspace.file == tmp_path / "moirae.yaml"
    assert workspace.home == tmp_path / ".moirae"
    assert workspace.archive == str(tmp_path / ".moirae/archive")
    assert workspace.database is None
    assert (workspace.spark.master, workspace.spark.conf) == ("local[2]", {})
    assert (workspace.server.host, workspace.server.port) == ("127.0.0.1", 8765)
    cpu = workspace.streams["cpu"]
    assert cpu.columns == {"ts": "timestamp", "host": "string", "slice": "string", "cpu": "double"}
    assert (cpu.time, cpu.id, cpu.key) == ("ts", ("host", "slice", "ts"), ("host",))
    assert (cpu.lateness, cpu.future, cpu.idle) == (
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(seconds=10),
    )
    assert cpu.source == FileSource(files=str(tmp_path / "landing/cpu/*.jsonl"), format="jsonl")
    hosts = workspace.relations["hosts"]
    assert (hosts.key, hosts.source.file, hosts.source.format) == (
        ("host",),
        str(tmp_path / "hosts.csv"),
        "csv",
    )
    assert (workspace.chunks.rows, workspace.chunks.recent) == (1_000_000, 24)
    assert (workspace.chunks.age, workspace.chunks.keep) == (timedelta(hours=1), timedelta(days=90))
    assert (workspace.recall.history_queries, workspace.recall.engine) == (2, "auto")
    assert workspace.recall.feedback_timeout == timedelta(minutes=10)
    assert workspace.rules == (str(tmp_path / "rules/*.yaml"),)
    webhook = workspace.receivers["ops"].webhook
    assert webhook is not None
    assert webhook.get_secret_value() == "http://127.0.0.1:9999/"
    assert (workspace.routes[0].match, workspace.routes[0].receiver) == (
        {"severity": "page"},
        "ops",
    )
    assert workspace.table_names == {"cpu", "hosts", "external_alerts"}


def test_defaults_are_as_documented(tmp_path: Path) -> None:
    explicit, defaults = load(tmp_path, CONTRACT), load(tmp_path, "home: .moirae\n")
    for name in ("home", "database", "archive", "spark", "server", "chunks", "recall", "rules"):
        assert getattr(defaults, name) == getattr(explicit, name), name


def test_paths_are_absolute_or_relative_to_the_file(tmp_path: Path) -> None:
    workspace = load(
        tmp_path,
        "home: /data/m\narchive: 'file:///mnt/${BUCKET}/archive'\nrules: [/etc/r.yaml]\n",
        BUCKET="b",
    )
    assert (workspace.home, workspace.archive, workspace.rules) == (
        Path("/data/m"),
        "/mnt/b/archive",
        ("/etc/r.yaml",),
    )
    assert load(tmp_path, "home: /data/m\n").archive == "/data/m/archive"
    assert load(tmp_path, "archive: cold\n").archive == str(tmp_path / "cold")
    for archive in ("s3://a.bucket/of/mine", "s3a://a.bucket/of/mine/", "s3://${NAME}/of/mine"):
        assert (
            load(tmp_path, f"archive: {archive}\n", NAME="a.bucket").archive
            == "s3://a.bucket/of/mine"
        )
    assert load(tmp_path, "archive: s3://bucket\n").archive == "s3://bucket"


def test_rule_files_are_listed_once_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    for name in ("b.yaml", "a.yaml", "c.txt"):
        (tmp_path / "rules" / name).touch()
    workspace = load(tmp_path, "rules: [rules/*.yaml, rules/b.*]\n").find_rule_files()
    assert workspace == (tmp_path / "rules/a.yaml", tmp_path / "rules/b.yaml")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    text = "database: ${DSN}\nreceivers: {ops: {webhook: 'https://hook/secret-1'}, p: {pagerduty: '${KEY}'}}\n"
    workspace = load(tmp_path, text, DSN="postgresql://me:secret-2@db/moirae", KEY="secret-3")
    assert (
        "secret-"
        not in f"{workspace!r} {workspace} {workspace.model_dump()} {workspace.model_dump_json()}"
    )
    assert workspace.database is not None
    assert workspace.database.get_secret_value() == "postgresql://me:secret-2@db/moirae"


@pytest.mark.parametrize(
    "text", ["database: me:secret@db\n", "database: 5\n", "receivers: {o: {webhook: secret}}\n"]
)
def test_secrets_are_not_shown_in_problems(tmp_path: Path, text: str) -> None:
    (message,) = load_problems(tmp_path, text)
    assert "secret" not in message
    assert "not 5" not in message


@pytest.mark.parametrize(
    ("text", "message"),
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
        ("engine: sparc\n", "1:9: engine: must be 'auto', 'local' or 'spark', not 'sparc'"),
        (
            "spark: {master: 'lokal[2]'}\n",
            "1:17: spark.master: 'lokal[2]' is no Spark master, such as local[2], yarn or ",
        ),
        ("spark: {master: 'local[0]'}\n", "1:17: spark.master: 'local[0]' is no Spark master"),
        (
            "spark: {master: 'spark://host'}\n",
            "1:17: spark.master: 'spark://host' is no Spark master",
        ),
        ("spark: {large_batch: 0}\n", "1:22: spark.large_batch: must be at least 1, not 0"),
        ("database: ${NONE}\n", "1:11: database: the environment variable NONE is not set"),
        ("database: ${no\n", "1:11: database: invalid variable: write ${NAME}"),
        (
            "home: ${HOME}/x\n",
            "1:7: home: ${…} is supported only in database, archive, receivers and kafka servers",
        ),
        (
            "archive: gs://b/a\n",
            "1:10: archive: must be a directory of a local file system, or s3://bucket/prefix",
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
            "1:13: receivers.o.apprise: set exactly one of webhook, slack, ",
        ),
        ("home: a\nhome: b\n", "2:1: duplicate key 'home', first on line 1"),
        ("", "1:1: no workspace: the file is empty"),
    ],
)
def test_invalid_setting_is_rejected_at_its_position(
    tmp_path: Path, text: str, message: str
) -> None:
    (problem,) = load_problems(tmp_path, text)
    assert problem.startswith(message)


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[4, 3]",
        "local-cluster[2, 1, 1024]",
        "spark://host:7077",
        "spark://[::1]:7077",
        "spark://a-1.example:7077,b_2:7077",
        "yarn",
        "k8s://https://10.0.0.1:6443",
    ],
)
def test_masters_of_spark_are_accepted(tmp_path: Path, master: str) -> None:
    assert load(tmp_path, f"{STREAM}spark: {{master: '{master}'}}\n").spark.master == master


def test_problems_are_reported_together_in_file_order(tmp_path: Path) -> None:
    text = "home: 5\nchunks: {age: 5}\nhome: x\nrecal: {}\n" + STREAM.replace(
        "time: ts", "time: no"
    )
    assert [problem.split(":")[:2] for problem in load_problems(tmp_path, text)] == [
        *(["1", "7"], ["2", "15"], ["3", "1"], ["4", "1"], ["8", "11"])
    ]


def test_missing_workspace_file_suggests_moirae_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError,
        match=r"^moirae.yaml: no such workspace file; create one with `moirae init DIR`$",
    ) as error:
        load_settings_from_environment()
    assert error.value.exit_code == 2


def test_missing_workspace_file_is_named_as_given(tmp_path: Path) -> None:
    path = tmp_path / "none" / "w.yaml"
    with pytest.raises(UsageError) as error:
        load_settings_from_environment(path)
    assert str(error.value).startswith(f"{path}: no such workspace file")


def test_variables_come_from_the_process_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@examples(300)
@given(st.dictionaries(st.sampled_from(list(Settings.model_fields)), VALUES, min_size=1))
def test_any_workspace_is_loaded_or_rejected(parts: dict[str, str]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in parts.items())
    document, faults = parse_document("w.yaml", text, empty_message="")
    assert document is not None
    model, problems = validate(Settings, document)
    assert model is None if problems else model is not None or faults
    assert all(problem.line is not None and problem.line <= len(parts) for problem in problems)


def test_workspace_without_streams_has_that_of_posted_alerts(tmp_path: Path) -> None:
    file = tmp_path / "moirae.yaml"
    file.write_text("home: .moirae\n")
    settings = load_settings_from_environment(file)
    assert list(settings.streams) == [EXTERNAL_ALERTS]
    assert not settings.declares_streams
