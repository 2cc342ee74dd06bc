"""Fields of Sigma rules are columns or expressions of a stream."""

import pytest

from moirae.errors import NotImported
from moirae.sigma.fields import LogSourceKey, MappedField, StreamLayout
from moirae.sigma.model import FieldExpression, LogSource, SigmaMap

COLUMNS = {"ts": "timestamp", "exe": "string", "Order": "int", "host": "string"}
PROCESS = LogSource(
    category="process_creation",
    fields={"Image": FieldExpression(sql="concat(host, exe)")},
    keywords=("exe",),
)
SIGMA_MAP = SigmaMap(
    fields={"Image": "exe"}, keywords=("host",), logsources=(PROCESS, LogSource(product="linux"))
)


def test_field_of_the_log_source_goes_before_the_common_one() -> None:
    layout = StreamLayout("s", COLUMNS, SIGMA_MAP)
    process = layout.find_log_source(LogSourceKey("Process_Creation", "windows", None))
    fields = layout.fields_of(process)
    assert fields.resolve("Image") == MappedField("(concat(host, exe))", "string")
    assert fields.keywords == [MappedField("exe", "string")]
    linux = layout.fields_of(layout.find_log_source(LogSourceKey(None, "linux", "sshd")))
    assert linux.resolve("Image") == MappedField("exe", "string")
    assert linux.keywords == [MappedField("host", "string")]


def test_unmapped_field_is_the_column_of_its_name_or_missing() -> None:
    fields = StreamLayout("s", COLUMNS, SigmaMap()).fields_of(LogSource())
    assert fields.resolve("EXE") == MappedField("exe", "string")
    assert fields.resolve("order") == MappedField("`Order`", "int")
    fields.resolve("User")
    fields.resolve("User")
    assert fields.missing == ["User"]


def test_log_source_that_is_not_in_the_map_is_a_reason() -> None:
    layout = StreamLayout("s", COLUMNS, SIGMA_MAP)
    with pytest.raises(NotImported, match="macos/file_event is not in the map"):
        layout.find_log_source(LogSourceKey("file_event", "macos", None))


def test_faults_of_the_map_are_listed_with_their_path() -> None:
    source = LogSource(fields={"A": FieldExpression(sql="lower(none)")}, where="host = ")
    sigma_map = SigmaMap(
        key=("nothing",), fields={"B": "none"}, keywords=("Order",), logsources=(source,)
    )
    problems = dict(StreamLayout("s", COLUMNS, sigma_map).check())
    assert list(problems) == [
        ("fields", "B"),
        ("keywords", 0),
        ("logsources", 0, "fields", "A"),
        ("logsources", 0, "where"),
        ("key", 0),
    ]
    assert problems["logsources", 0, "fields", "A"] == "stream s has no column none"
