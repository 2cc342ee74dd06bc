"""Changes of columns that the archive cannot follow are refused with their positions."""

from dataclasses import replace
from pathlib import Path

import pytest

from archiver.delta import StreamTable
from moirae.config import stream_schema
from moirae.errors import ProblemsError
from moirae.runtime.storage.declarations import check_declarations, find_declaration_problems
from tests.unit.archiver.delta.test_table import rows
from tests.unit.moirae.config.workspace_files import load

WORKSPACE = """\
streams:
  s:
    columns: {ts: timestamp, n: bigint}
    time: ts
    id: [n]
    source: {http: true}
"""


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ("n: bigint", "n: bigint, m: {type: int, from: x}", []),
        ("n: bigint", "n: int", ["3:33: streams.s.columns.n: column n was archived as bigint and"]),
        ("    id: [n]\n", "", ["2:3: streams.s.id: archived rows are identified by n"]),
        ("id: [n]", "id: [n, ts]", ["5:9: streams.s.id: archived rows are identified by n"]),
        (
            "{ts: timestamp, n: bigint}\n    time: ts",
            "{ts: timestamp, n: bigint, t: timestamp}\n    time: t",
            ["4:11: streams.s.time: the event time of archived rows is ts"],
        ),
    ],
)
def test_changes_are_refused_by_file_and_line(
    tmp_path: Path, old: str, new: str, messages: list[str]
) -> None:
    settings = load(tmp_path, WORKSPACE)
    assert find_declaration_problems(settings) == []
    schema = stream_schema("s", settings.streams["s"])
    StreamTable(Path(settings.archive), schema).append(rows(range(3)), 1)
    changed = load(tmp_path, WORKSPACE.replace(old, new))
    problems = list(map(str, find_declaration_problems(changed)))
    assert len(problems) == len(messages)
    for problem, message in zip(problems, messages, strict=True):
        assert problem.startswith(f"{tmp_path}/moirae.yaml:{message}")
    if messages:
        with pytest.raises(ProblemsError):
            check_declarations(changed)


def test_renamed_stream_is_compared_with_the_table_of_its_name_before(tmp_path: Path) -> None:
    settings = load(tmp_path, WORKSPACE)
    schema = stream_schema("s", settings.streams["s"])
    StreamTable(Path(settings.archive), schema).append(rows(range(3)), 1)
    renamed = WORKSPACE.replace("  s:\n", "  t:\n    was: s\n")
    renamed = renamed.replace("n: bigint", "n: int")
    # Another process may have created the table of the new name.
    StreamTable(Path(settings.archive), replace(schema, name="t"))
    (problem,) = find_declaration_problems(load(tmp_path, renamed))
    assert str(problem).startswith(
        f"{tmp_path}/moirae.yaml:4:33: streams.t.columns.n: column n was archived as bigint and"
    )
