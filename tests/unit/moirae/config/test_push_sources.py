"""Sources of rows that other systems send."""

from pathlib import Path

import pytest

from moirae.config.push_sources import LokiSource, OtlpSource, RemoteWriteSource
from tests.unit.moirae.config.workspace_files import STREAM, load, load_problems

REMOTE_WRITE = STREAM.replace("{http: true}", "{remote_write: true, match: MATCH}")


@pytest.mark.parametrize(
    ("match", "selectors"),
    [
        ("node_load1", [["__name__=node_load1"]]),
        (
            '[\'{job="a",zone!="b"}\', \'up{job=~"a.*"}\']',
            [["job=a", "zone!=b"], ["__name__=up", "job=~a.*"]],
        ),
    ],
)
def test_selectors_of_series_are_read(
    tmp_path: Path, match: str, selectors: list[list[str]]
) -> None:
    source = load(tmp_path, REMOTE_WRITE.replace("MATCH", match)).streams["cpu"].source
    assert isinstance(source, RemoteWriteSource)
    read = [[f"{m.name}{m.operator}{m.value}" for m in matchers] for matchers in source.match]
    assert read == selectors


@pytest.mark.parametrize("match", ["'{}'", "7", "'a b'", "'{job=~\"(\"}'", "['']"])
def test_invalid_selector_is_refused_at_its_position(tmp_path: Path, match: str) -> None:
    (problem,) = load_problems(tmp_path, REMOTE_WRITE.replace("MATCH", match))
    assert "streams.cpu.source.match" in problem


def test_value_of_a_sample_is_no_part_of_its_identity(tmp_path: Path) -> None:
    text = REMOTE_WRITE.replace("MATCH", "up").replace("host: string", "value: double")
    assert load(tmp_path, text).streams["cpu"].measured == ("value",)


OTLP = STREAM.replace("{http: true}", '{otlp: SIGNAL, match: \'{"service.name"="checkout"}\'}')


def test_log_records_are_identified_by_their_place_and_samples_without_their_value(
    tmp_path: Path,
) -> None:
    stream = load(tmp_path, OTLP.replace("SIGNAL", "logs")).streams["cpu"]
    assert isinstance(stream.source, OtlpSource)
    ((matcher,),) = stream.source.match
    assert (matcher.name, matcher.value) == ("service.name", "checkout")
    assert (stream.identity, stream.measured) == ("place", ())
    metrics = OTLP.replace("SIGNAL", "metrics").replace(
        "host: string", "host: string, value: double"
    )
    stream = load(tmp_path, metrics).streams["cpu"]
    assert (stream.identity, stream.measured) == ("row", ("value",))


def test_other_signals_are_refused(tmp_path: Path) -> None:
    (problem,) = load_problems(tmp_path, OTLP.replace("SIGNAL", "traces"))
    assert "streams.cpu.source.otlp" in problem


def test_entries_of_loki_are_identified_by_their_place(tmp_path: Path) -> None:
    stream = load(
        tmp_path, STREAM.replace("{http: true}", "{loki: true, match: '{app=\"a\"}'}")
    ).streams["cpu"]
    assert isinstance(stream.source, LokiSource)
    assert (stream.identity, stream.measured) == ("place", ())
